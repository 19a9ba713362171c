-- The tools of an agent that clients made: what they are is the tools service's to say.

alter table {schema}.agents add column custom_tool_ids text[] not null default '{}';

create or replace view {schema}.agent_view as
    select id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, doc,
           body, hidden, custom_tool_ids
    from {schema}.agents;
