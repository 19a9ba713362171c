-- The id in these indexes orders what was created in one moment. Under its own collation none of them
-- can be taken for the key of an id, as Postgres does while a table is small, and goes on to do when
-- it has grown, until it is analyzed: then a look at one row reads all that the organisation has.

drop index {schema}.agents_page;
create index agents_page on {schema}.agents (org, created_at, id collate "C");
drop index {schema}.runs_page;
create index runs_page on {schema}.runs (org, created_at, id collate "C");
drop index {schema}.runs_agent;
create index runs_agent on {schema}.runs (agent_id, created_at, id collate "C");
drop index {schema}.runs_active;
create index runs_active on {schema}.runs (org, created_at, id collate "C")
    where status in ('created', 'running');
drop index {schema}.runs_conversation;
create index runs_conversation on {schema}.runs (conversation_id, created_at, id collate "C");
