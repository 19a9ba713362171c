-- Indexes of what an organisation has, in the order of its lists. Under their own collation, which
-- only lists ask for, they cannot be taken for a key by who looks something up and checks that it is
-- this organisation's: until a table is analyzed Postgres takes an organisation for as good a key as
-- a conversation, and reads all that the organisation has. The conversation in `messages_recent` and
-- the ids order what was said or made in one moment; they are no keys for the same reason.

drop index {schema}.messages_recent;
create index messages_recent on {schema}.messages
    (org collate "C", created_at, conversation_id collate "C", position);
drop index {schema}.agents_page;
create index agents_page on {schema}.agents (org collate "C", created_at, id collate "C");
drop index {schema}.agents_shown;
create index agents_shown on {schema}.agents (org collate "C", created_at, id collate "C")
    where not hidden;
drop index {schema}.agents_name;
create index agents_name on {schema}.agents (org collate "C", name);
drop index {schema}.runs_page;
create index runs_page on {schema}.runs (org collate "C", created_at, id collate "C");
drop index {schema}.runs_active;
create index runs_active on {schema}.runs (org collate "C", created_at, id collate "C")
    where status in ('created', 'running');
drop index {schema}.steps_page;
create index steps_page on {schema}.steps (org collate "C", created_at, id collate "C");
drop index {schema}.steps_rated;
create index steps_rated on {schema}.steps (org collate "C", created_at, id collate "C")
    where feedback is not null;
drop index {schema}.conversations_page;
create index conversations_page on {schema}.conversations
    (org collate "C", created_at, id collate "C");
