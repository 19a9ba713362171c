-- Conversations beside an agent's own, as clients read them.

create table {schema}.conversations (
    id              text primary key,
    org             text not null,
    agent_id        text not null,
    created_at      timestamptz not null,
    last_message_at timestamptz,
    archived        boolean not null,
    hidden          boolean not null,
    isolated_blocks jsonb not null,
    doc             jsonb not null
);
create index conversations_page on {schema}.conversations (org, created_at, id collate "C");
create index conversations_agent on {schema}.conversations (agent_id, created_at, id collate "C");
comment on column {schema}.conversations.doc is 'The V1 conversation without its messages.';
comment on column {schema}.conversations.isolated_blocks is
    'The copy that stands in the conversation for a block of its agent, by the id of that block.';

-- Those of an agent that is gone go soon, too many at once may be too much for one commit: until then
-- nobody sees them. A subquery for each row, not a join: that would read an index from its beginning.
create view {schema}.conversation_view as
    select c.id, c.org, c.agent_id, c.created_at, c.last_message_at, c.archived, c.hidden,
           c.isolated_blocks, c.doc
    from {schema}.conversations c
    where (select a.name from {schema}.agents a where a.id = c.agent_id) is not null;
create view {schema}.created_conversation_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'conversation.created';
comment on view {schema}.created_conversation_view is 'Conversations that were ever created.';
grant select on {schema}.conversation_view, {schema}.created_conversation_view to heeler_reader;
