-- The messages of an agent in the order in which they were recorded, over all its conversations. The
-- collation keeps the planner from using this index as a key where it should look up a conversation.

alter table {schema}.messages add column recorded_at timestamptz;
-- Until they are rebuilt: by their times, and none before those that stand before it.
update {schema}.messages m set recorded_at = listed.at
from (select id, max(created_at) over (partition by conversation_id order by position) as at
      from {schema}.messages) listed
where m.id = listed.id;
alter table {schema}.messages alter column recorded_at set not null;
create index messages_agent on {schema}.messages (agent_id collate "C", recorded_at);
create or replace view {schema}.message_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           sent, in_context, text, docs, number, pieces, plain_docs, recorded_at
    from {schema}.messages;
insert into {schema}.rebuilds values ('messages') on conflict do nothing;
