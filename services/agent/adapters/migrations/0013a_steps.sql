-- Steps: what they are found by. All else is read from the event at their position.

create table {schema}.steps (
    id              text primary key,
    org             text not null,
    agent_id        text,
    conversation_id text not null,
    run_id          text not null,
    position        bigint not null,
    created_at      timestamptz not null,
    status          text not null,
    model           text,
    feedback        text,
    tags            text[],
    tid             text
);
create index steps_page on {schema}.steps (org, created_at, id collate "C");
create index steps_agent on {schema}.steps (agent_id, created_at, id collate "C");
create index steps_run on {schema}.steps (run_id, created_at, id collate "C");
create index steps_conversation on {schema}.steps (conversation_id, position);
create index steps_rated on {schema}.steps (org, created_at, id collate "C")
    where feedback is not null;
create index steps_tags on {schema}.steps using gin (tags) where tags is not null;
comment on column {schema}.steps.position is
    'The version of the event in which its model answered, or its run ended before that.';
comment on column {schema}.steps.created_at is 'When that was.';

create index events_tool_calls on {schema}.events (about, version)
    where topic in ('tool_call.started', 'tool_calls.started', 'tool_call.finished',
                    'tool_call.refused', 'tool_call.interrupted');
create index events_traced_steps on {schema}.events
    (split_part(metadata->>'traceparent', '-', 2))
    where topic = 'model.replied' and metadata ? 'traceparent';

create view {schema}.step_view as
    select s.id, s.org, s.agent_id, s.conversation_id, s.run_id, s.position, s.created_at, s.status,
           s.model, s.feedback, s.tags, s.tid, e.topic, e.payload, e.trace_id
    from {schema}.steps s left join lateral (
        -- By itself, so that the plan looks an event up for each step that is wanted, and no other.
        select topic, payload, split_part(metadata->>'traceparent', '-', 2) as trace_id
        from {schema}.events
        where aggregate_id = s.conversation_id and version = s.position offset 0
    ) e on true;
comment on view {schema}.step_view is 'Steps, and the event that tells what came of each.';
create view {schema}.traced_step_view as
    select payload->>'step_id' as id, org, split_part(metadata->>'traceparent', '-', 2) as trace_id
    from {schema}.events
    where topic = 'model.replied' and metadata ? 'traceparent';
comment on view {schema}.traced_step_view is 'Steps by the trace in which they were made.';
create view {schema}.tool_call_event_view as
    select e.about as run_id, e.org, e.version as position, e.occurred_at,
           case e.topic when 'tool_calls.started' then 'tool_call.started' else e.topic end as topic,
           e.payload->>'step_id' as step_id,
           coalesce(c.call->>'tool_call_id', e.payload->>'tool_call_id') as tool_call_id,
           coalesce(c.call->>'tool', e.payload->>'tool') as tool, e.payload->>'status' as status
    from {schema}.events e left join lateral json_array_elements(e.payload->'calls') c (call) on true
    where e.topic in ('tool_call.started', 'tool_calls.started', 'tool_call.finished',
                      'tool_call.refused', 'tool_call.interrupted');
comment on view {schema}.tool_call_event_view is 'When tools were called, and when they answered.';
grant select on {schema}.step_view, {schema}.traced_step_view, {schema}.tool_call_event_view
    to heeler_reader;

insert into {schema}.rebuilds values ('steps') on conflict do nothing;
