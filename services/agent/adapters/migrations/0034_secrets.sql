-- What the custom tools of an agent are given, sealed: [{"id", "key", "value"}], null for nothing.

alter table {schema}.agents add column secrets jsonb;

create or replace view {schema}.agent_view as
    select id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, doc,
           body, hidden, custom_tool_ids, secrets
    from {schema}.agents;
