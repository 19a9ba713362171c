-- Messages of all agents by time, and by their words; the tags of agents; agents that are not shown.

create index messages_recent on {schema}.messages (org, created_at, conversation_id, position);
-- The words of a message, of a long one its beginning: Postgres refuses to index more than 1 MB. What
-- waits to be sorted in is little, so that no commit sorts much.
create index messages_words on {schema}.messages
    using gin (to_tsvector('simple', left(text, 20000))) with (gin_pending_list_limit = 256);
create view {schema}.message_text_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at, text,
           coalesce(plain_docs, docs) as docs
    from {schema}.messages;
comment on view {schema}.message_text_view is 'Messages with the words that they are found by.';

create table {schema}.agent_tags (
    agent_id text not null,
    tag      text not null,
    org      text not null,
    primary key (agent_id, tag)
);
create index agent_tags_by_name on {schema}.agent_tags (org, tag collate "C");
comment on table {schema}.agent_tags is 'Which tags there are, without a look at all agents.';
create view {schema}.agent_tag_view as select agent_id, tag, org from {schema}.agent_tags;

alter table {schema}.agents add column hidden boolean not null default false;
create index agents_shown on {schema}.agents (org, created_at, id collate "C") where not hidden;
create or replace view {schema}.agent_view as
    select id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, doc,
           body, hidden
    from {schema}.agents;
grant select on {schema}.agent_tag_view, {schema}.message_text_view to heeler_reader;

insert into {schema}.rebuilds values ('agent_tags'), ('agents') on conflict do nothing;
