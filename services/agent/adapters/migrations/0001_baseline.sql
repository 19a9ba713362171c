-- The agent service: agents, conversations, messages, runs, steps and models.
--
-- Indexes of lists have their organisation and their id under the collation "C", which only lists ask
-- for: before a table is analyzed, Postgres would otherwise take such an index for the key of a row
-- and read all that the organisation has. JSON that a client wrote has the type json and is served as
-- it was sent.
--
-- The created_*_views list deleted items too: a list continues after an item that was deleted.

-- A row of up to 8 kB, a page, stays whole here, in agents and in messages. Above 2 kB Postgres would
-- compress its texts and move them out, which costs a sixth of the commit that creates an agent.
alter table {schema}.events set (toast_tuple_target = 8160);

-- Find what contains a text, and the words of one agent.
create extension if not exists pg_trgm;
create extension if not exists btree_gin;

-- Agents -----------------------------------------------------------------------------------------

create table {schema}.agents (
    id              text primary key,
    org             text not null,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    name            text not null,
    conversation_id text not null,
    block_ids       text[] not null,
    tags            text[] not null,
    tools           jsonb not null,
    fields          jsonb not null,
    body            text not null,
    hidden          boolean not null default false,
    custom_tool_ids text[] not null default '{}',
    secrets         jsonb
) with (toast_tuple_target = 8160);
-- Served as it is: compressing it and printing it from jsonb was half of what a list cost.
alter table {schema}.agents alter column body set storage external;
create index agents_page on {schema}.agents (org collate "C", created_at, id collate "C");
create index agents_shown on {schema}.agents (org collate "C", created_at, id collate "C")
    where not hidden;
create index agents_name on {schema}.agents (org collate "C", name);
create index agents_tags on {schema}.agents using gin (tags);
create index agents_blocks on {schema}.agents using gin (block_ids);
create index agents_deployment on {schema}.agents ((fields->>'deployment_id'))
    where fields->>'deployment_id' is not null;
create index agents_sleeptime on {schema}.agents (id) where fields->>'enable_sleeptime' = 'true';
create index agents_project on {schema}.agents ((fields->>'project_id'))
    where fields->>'project_id' is not null;
create index agents_custom_tools on {schema}.agents using gin (custom_tool_ids);
create index agents_hidden on {schema}.agents (org collate "C") where hidden;
create index agents_updated on {schema}.agents (org collate "C", updated_at, id collate "C");
create index agents_creator on {schema}.agents
    ((fields->>'created_by_id'), created_at, id collate "C");
create index agents_template on {schema}.agents
    ((fields->>'template_id'), created_at, id collate "C") where fields->>'template_id' is not null;
create index agents_base_template on {schema}.agents
    ((fields->>'base_template_id'), created_at, id collate "C")
    where fields->>'base_template_id' is not null;
-- The lists of pending entries are short here and below, so that no commit sorts much.
create index agents_named_like on {schema}.agents using gin (name gin_trgm_ops)
    with (gin_pending_list_limit = 256);
create index agents_described_like on {schema}.agents
    using gin ((fields->>'description') gin_trgm_ops) with (gin_pending_list_limit = 256);
call {schema}.keep_count_of('agents');
comment on column {schema}.agents.body is
    'Fields of the V1 agent that only its configuration changes, ready to serve: JSON without the
braces.';
comment on column {schema}.agents.fields is
    'The other fields of the V1 agent: what is replaced in an answer, and what is searched by.';
comment on column {schema}.agents.custom_tool_ids is
    'The attached tools that clients made; their definitions are in the tools service.';
comment on column {schema}.agents.secrets is
    'Sealed environment variables of custom tools: [{"id", "key", "value"}], null for none.';

-- How many agents have a block, for those that any has.
create table {schema}.block_agents (
    block_id text primary key,
    org      text not null,
    agents   bigint not null
) with (fillfactor = 70);
create index block_agents_number on {schema}.block_agents (org collate "C", agents);
comment on table {schema}.block_agents is
    'How many agents have each block; zero, or no row, for none. Written by triggers alone.';

create function {schema}.count_agents_of_blocks(org text, taken text[], given text[])
returns void language sql as $$
    insert into {schema}.block_agents (block_id, org, agents)
    select c.id, org, sum(c.number) from (
        select unnest(given) as id, 1 as number union all select unnest(taken), -1) c
    group by c.id having sum(c.number) <> 0 order by c.id
    on conflict (block_id) do update set agents = block_agents.agents + excluded.agents
$$;
create function {schema}.count_blocks_of_agent() returns trigger language plpgsql as $$
begin
    case tg_op
        when 'TRUNCATE' then
            delete from {schema}.block_agents;
        when 'INSERT' then
            perform {schema}.count_agents_of_blocks(new.org, '{}', new.block_ids);
        when 'DELETE' then
            perform {schema}.count_agents_of_blocks(old.org, old.block_ids, '{}');
        else
            perform {schema}.count_agents_of_blocks(new.org, old.block_ids, new.block_ids);
    end case;
    return null;
end $$;
create trigger count_blocks after insert or delete on {schema}.agents
    for each row execute function {schema}.count_blocks_of_agent();
create trigger count_no_blocks after truncate on {schema}.agents
    for each statement execute function {schema}.count_blocks_of_agent();
create trigger count_changed_blocks after update of block_ids on {schema}.agents
    for each row when (old.block_ids is distinct from new.block_ids)
    execute function {schema}.count_blocks_of_agent();

create view {schema}.block_agents_view as
    select block_id, org, agents from {schema}.block_agents;
grant select on {schema}.block_agents_view to heeler_reader;

create table {schema}.agent_tags (
    agent_id text not null,
    tag      text not null,
    org      text not null,
    primary key (agent_id, tag)
);
create index agent_tags_by_name on {schema}.agent_tags (org, tag collate "C");
comment on table {schema}.agent_tags is 'Which tags exist, without a look at all agents.';

create table {schema}.agent_capabilities (
    agent_id    text not null,
    name        text not null,
    org         text not null,
    description text,
    priority    int not null,
    primary key (agent_id, name)
);
create index agent_capabilities_by_name on {schema}.agent_capabilities (org, name);
create index agent_capabilities_listed on {schema}.agent_capabilities (org, name collate "C");
comment on table {schema}.agent_capabilities is 'What agents that are there declare they can do.';

-- What is computed from body here is computed only by queries that name it.
create view {schema}.agent_view as
    select a.id, a.org, a.created_at, a.updated_at, a.name, a.conversation_id, a.block_ids, a.tags,
           a.tools, a.fields, a.body, a.hidden, a.custom_tool_ids, a.secrets,
           b.v1->'embedding_config' as embedding_config,
           b.v1->>'timezone' as timezone,
           (b.v1->>'max_files_open')::int as files_max,
           (b.v1->>'per_file_view_window_char_limit')::int as file_chars_max,
           case when a.secrets is null then a.body else (
               select string_agg(to_json(f.key)::text || ': ' || f.value::text, ', ')
               from json_each(b.v1) f
               where f.key not in ('secrets', 'tool_exec_environment_variables')
           ) end as body_beside_secrets,
           (
               select string_agg(to_json(f.key)::text || ': ' || f.value::text, ', ')
               from json_each(b.v1) f
               where f.key <> 'sources' and (a.secrets is null
                   or f.key not in ('secrets', 'tool_exec_environment_variables'))
           ) as body_beside_secrets_and_sources
    from {schema}.agents a cross join lateral (select ('{' || a.body || '}')::json as v1) b;
comment on view {schema}.agent_view is
    'Agents. body_beside_secrets is body without the fields for secrets where the agent has any;
body_beside_secrets_and_sources has no sources either.';

create view {schema}.agent_tag_view as select agent_id, tag, org from {schema}.agent_tags;

create view {schema}.agent_capability_view as
    select agent_id, name, org, description, priority from {schema}.agent_capabilities;

create view {schema}.created_agent_view as
    select aggregate_id as id, org,
           min(occurred_at) filter (where topic = 'agent.created') as created_at,
           max((payload->'config'->>'updated_at')::timestamptz) as updated_at
    from {schema}.events
    where topic in ('agent.created', 'agent.updated')
    group by aggregate_id, org;
comment on view {schema}.created_agent_view is 'Agents that were ever created.';

-- From events, so that an empty read model deletes nothing.
create view {schema}.deleted_agent_view as
    select aggregate_id as id, org, occurred_at as deleted_at
    from {schema}.events
    where topic = 'agent.deleted'
      and not exists (select from {schema}.agents a where a.id = aggregate_id);
create index events_agent_deleted on {schema}.events (aggregate_id) where topic = 'agent.deleted';
comment on view {schema}.deleted_agent_view is
    'Agents that were deleted, and not imported again since.';

grant select on {schema}.agent_view, {schema}.agent_tag_view, {schema}.agent_capability_view,
    {schema}.created_agent_view,
    {schema}.deleted_agent_view to heeler_reader;

-- Conversations: those beside the one that each agent has from its creation ------------------------

create table {schema}.conversations (
    id              text primary key,
    org             text not null,
    agent_id        text not null,
    created_at      timestamptz not null,
    last_message_at timestamptz,
    archived        boolean not null,
    hidden          boolean not null,
    isolated_blocks jsonb not null,
    fields          jsonb not null
);
create index conversations_page on {schema}.conversations
    (org collate "C", created_at, id collate "C");
create index conversations_agent on {schema}.conversations (agent_id, created_at, id collate "C");
create index conversations_archived on {schema}.conversations
    (org collate "C", created_at, id collate "C") where archived;
create index conversations_latest on {schema}.conversations
    (org collate "C", coalesce(last_message_at, 'epoch'::timestamptz), id collate "C");
create index conversations_summed_up_like on {schema}.conversations
    using gin ((fields->>'summary') gin_trgm_ops) with (gin_pending_list_limit = 256);
comment on column {schema}.conversations.fields is 'The V1 conversation without its messages.';
comment on column {schema}.conversations.isolated_blocks is
    'The conversation''s own copy of a block of its agent, by the id of the agent''s block.';

-- Conversations of a deleted agent are hidden at once and deleted a few at a time: all of them may be
-- too much for one commit. A subquery for each row: a join would read an index from its beginning.
create view {schema}.conversation_view as
    select c.id, c.org, c.agent_id, c.created_at, c.last_message_at, c.archived, c.hidden,
           c.isolated_blocks, c.fields
    from {schema}.conversations c
    where (select a.name from {schema}.agents a where a.id = c.agent_id) is not null;

create view {schema}.created_conversation_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'conversation.created';
comment on view {schema}.created_conversation_view is 'Conversations that were ever created.';

grant select on {schema}.conversation_view, {schema}.created_conversation_view to heeler_reader;

-- Messages ---------------------------------------------------------------------------------------

create table {schema}.messages (
    id              text primary key,
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    position        bigint not null,
    run_id          text,
    step_id         text,
    role            text not null,
    created_at      timestamptz not null,
    sent            boolean not null,
    in_context      boolean not null,
    text            text not null,
    v1_messages     json not null,
    number          bigint,
    chunks          jsonb,
    plain_v1_messages json,
    recorded_at     timestamptz not null
) with (toast_tuple_target = 8160);
-- Not unique: that a position comes once is what the version of the event guarantees.
create index messages_page on {schema}.messages (conversation_id, position);
create index messages_run on {schema}.messages (run_id, position) where run_id is not null;
create index messages_in_context on {schema}.messages (conversation_id, position)
    where in_context;
create index messages_recent on {schema}.messages
    (org collate "C", created_at, conversation_id collate "C", position);
-- The collation keeps Postgres from using this index where it should look up a conversation.
create index messages_agent on {schema}.messages (agent_id collate "C", recorded_at);
-- The words of a message, of a long one its beginning: Postgres refuses to index more than 1 MB. The
-- list of pending entries is short, so that no commit sorts much. System prompts are not searched, as
-- with V1: each has all of its agent's memory in it, and indexing it took a third of the commit that
-- creates an agent.
create index messages_words on {schema}.messages
    using gin ((agent_id collate "C"), to_tsvector('simple', left(text, 20000)))
    with (gin_pending_list_limit = 256) where role <> 'system';
comment on column {schema}.messages.v1_messages is 'The V1 messages that this one is served as.';
comment on column {schema}.messages.plain_v1_messages is
    'Of a summary that has a form of its own: the V1 messages for clients that do not want it.';
comment on column {schema}.messages.number is
    'The number of its first chunk in the run stream; null for what is not an answer.';
comment on column {schema}.messages.chunks is
    'Kinds and lengths of the chunks that it was streamed in; null if it was sent whole.';
comment on column {schema}.messages.recorded_at is
    'Orders the messages of an agent over all its conversations.';

create view {schema}.message_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           sent, in_context, text, v1_messages, number, chunks, plain_v1_messages, recorded_at
    from {schema}.messages m
    where (select a.name from {schema}.agents a where a.id = m.agent_id) is not null;
comment on view {schema}.message_view is
    'Messages of agents that are there: an import that is under way brings them before its agents.';

create view {schema}.message_text_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           recorded_at, text,
           coalesce(plain_v1_messages, v1_messages) as v1_messages
    from {schema}.messages m
    where (select a.name from {schema}.agents a where a.id = m.agent_id) is not null;
comment on view {schema}.message_text_view is 'Messages with the words that they are found by.';

-- Counted in the index, without a look at each message.
create view {schema}.counted_message_view as
    select m.conversation_id, m.org, m.agent_id, m.position,
           (select count(*) from {schema}.messages c where c.conversation_id = m.conversation_id)
               as messages
    from {schema}.messages m;
comment on view {schema}.counted_message_view is
    'Messages with the number of all that their conversations have.';

grant select on {schema}.message_view, {schema}.message_text_view, {schema}.counted_message_view
    to heeler_reader;

-- Runs -------------------------------------------------------------------------------------------

create table {schema}.runs (
    id              text primary key,
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    created_at      timestamptz not null,
    status          text not null,
    stop_reason     text,
    background      boolean not null,
    stream_tokens   boolean not null default false,
    request_hash    text not null,
    error           jsonb,
    usage           jsonb,
    fields          jsonb not null
);
create index runs_page on {schema}.runs (org collate "C", created_at, id collate "C");
create index runs_active on {schema}.runs (org collate "C", created_at, id collate "C")
    where status in ('created', 'running');
create index runs_agent on {schema}.runs (agent_id, created_at, id collate "C");
create index runs_conversation on {schema}.runs (conversation_id, created_at, id collate "C");
create index runs_background on {schema}.runs (org collate "C", created_at, id collate "C")
    where background;
-- The collation keeps Postgres from using it for the runs that go on.
create index runs_status on {schema}.runs (status collate "C");
create index runs_stop_reason on {schema}.runs (stop_reason, created_at, id collate "C")
    where stop_reason is not null;
create index runs_duration on {schema}.runs
    (org collate "C", coalesce((fields->>'total_duration_ns')::bigint, 0), id collate "C");
create index runs_schedule on {schema}.runs
    ((fields->'metadata'->>'schedule_id'), created_at, id collate "C")
    where fields->'metadata' ? 'schedule_id';
create index runs_batch on {schema}.runs
    ((fields->'metadata'->>'batch_id'), created_at, id collate "C")
    where fields->'metadata' ? 'batch_id';
create index runs_group on {schema}.runs
    ((fields->'metadata'->>'group_id'), created_at, id collate "C")
    where fields->'metadata' ? 'group_id';
create index events_run_accepted on {schema}.events (about) where topic = 'run.accepted';

create view {schema}.run_view as
    select id, org, agent_id, conversation_id, created_at, status, stop_reason, background,
           request_hash, error, usage, fields, stream_tokens
    from {schema}.runs r
    where (select a.name from {schema}.agents a where a.id = r.agent_id) is not null;
comment on view {schema}.run_view is 'Runs of agents that are there, as with message_view.';

create view {schema}.created_run_view as
    select about as id, org, (payload->'run'->>'created_at')::timestamptz as created_at
    from {schema}.events
    where topic = 'run.accepted';
comment on view {schema}.created_run_view is 'Runs that were ever accepted.';

grant select on {schema}.run_view, {schema}.created_run_view to heeler_reader;

create table {schema}.called_runs (
    run_id                 text primary key,
    org                    text not null,
    conversation_id        text not null,
    caller_run_id          text not null,
    caller_conversation_id text not null,
    waits                  boolean not null,
    callers                jsonb not null
);
create index called_runs_conversation on {schema}.called_runs (conversation_id);
create index called_runs_caller on {schema}.called_runs (caller_conversation_id);
comment on table {schema}.called_runs is
    'Runs that one agent asked of another; callers led to the run, the last of them asked for it.';

create view {schema}.called_run_view as
    select run_id, org, conversation_id, callers from {schema}.called_runs;
grant select on {schema}.called_run_view to heeler_reader;

create table {schema}.callbacks (
    run_id          text primary key,
    org             text not null,
    conversation_id text not null,
    url             text not null,
    attempts        int not null,
    next_at         timestamptz not null
);
create index callbacks_due on {schema}.callbacks (next_at);
create index callbacks_conversation on {schema}.callbacks (conversation_id);
comment on table {schema}.callbacks is
    'Callbacks of runs, from acceptance until the last attempt; swept every 2 s.';

create table {schema}.approvals (
    conversation_id text primary key,
    org             text not null,
    agent_id        text not null,
    message_id      text not null,
    requested_at    timestamptz not null
);
create index approvals_late on {schema}.approvals (requested_at);
comment on table {schema}.approvals is
    'Tool calls that wait for a client, one step of a conversation at a time; swept every 2 s.';

create view {schema}.approval_view as
    select conversation_id, org, agent_id, message_id, requested_at from {schema}.approvals;
grant select on {schema}.approval_view to heeler_reader;

create table {schema}.heartbeat_pauses (
    conversation_id text primary key,
    org             text not null,
    agent_id        text not null,
    minutes         int not null,
    until           timestamptz not null
);
create index heartbeat_pauses_until on {schema}.heartbeat_pauses (until);
comment on table {schema}.heartbeat_pauses is 'Conversations whose agents pause; swept every 2 s.';

-- Batches ----------------------------------------------------------------------------------------

create table {schema}.batches (
    id           text primary key,
    org          text not null,
    agent_id     text,
    created_at   timestamptz not null,
    completed_at timestamptz,
    status       text not null,
    at_once      int not null,
    keep         boolean not null,
    fields       jsonb not null,
    callback_url      text,
    callback_attempts int not null,
    callback_next_at  timestamptz
);
create index batches_callback on {schema}.batches (callback_next_at)
    where callback_url is not null and callback_next_at is not null;
create index batches_page on {schema}.batches (org collate "C", created_at, id collate "C");
create index batches_agent on {schema}.batches (agent_id, created_at, id collate "C");
create index batches_open on {schema}.batches (created_at) where completed_at is null;
comment on column {schema}.batches.agent_id is 'Null where each item says its own agent.';
comment on column {schema}.batches.callback_next_at is
    'When the client is told that the batch has ended, from then until the last attempt.';

create table {schema}.batch_items (
    id              text primary key,
    org             text not null,
    batch_id        text not null,
    number          int not null,
    agent_id        text not null,
    conversation_id text not null,
    run_id          text not null,
    status          text not null,
    request         json not null,
    outcome         json
);
create index batch_items_batch on {schema}.batch_items (batch_id, number);
create index batch_items_running on {schema}.batch_items (agent_id) where status = 'running';
comment on column {schema}.batch_items.outcome is
    'What came of it: messages, usage, stop reason, and why it was not answered.';

create view {schema}.batch_view as
    select id, org, agent_id, created_at, completed_at, status, at_once, keep, fields
    from {schema}.batches;
create view {schema}.batch_item_view as
    select id, org, batch_id, number, agent_id, conversation_id, run_id, status, request, outcome
    from {schema}.batch_items;
grant select on {schema}.batch_view, {schema}.batch_item_view to heeler_reader;

-- Steps ------------------------------------------------------------------------------------------

-- What steps are found by. Everything else is read from the event at their position.
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
create index steps_page on {schema}.steps (org collate "C", created_at, id collate "C");
create index steps_agent on {schema}.steps (agent_id, created_at, id collate "C");
create index steps_run on {schema}.steps (run_id, created_at, id collate "C");
create index steps_conversation on {schema}.steps (conversation_id, position);
create index steps_rated on {schema}.steps (org collate "C", created_at, id collate "C")
    where feedback is not null;
create index steps_model on {schema}.steps (substr(model, position('/' in model) + 1));
create index steps_tags on {schema}.steps using gin (tags) where tags is not null;
comment on column {schema}.steps.position is
    'The version of the event in which its model answered, or its run ended before that.';
comment on column {schema}.steps.created_at is 'The time of that event.';

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
        -- `offset 0`: the plan looks up one event for each step that is wanted, and no other.
        select topic, payload, split_part(metadata->>'traceparent', '-', 2) as trace_id
        from {schema}.events
        where aggregate_id = s.conversation_id and version = s.position offset 0
    ) e on true;
comment on view {schema}.step_view is 'Steps, each with the event that has its outcome.';

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

-- Events of an agent, in one order with those of other services ------------------------------------

create index events_conversations on {schema}.events ((payload->'config'->>'agent_id'))
    where topic = 'conversation.created' and payload->'config'->>'agent_id' <> '';
create index events_parts on {schema}.events (aggregate_id, version)
    where topic in ('agent.created', 'agent.block_attached')
       or (topic = 'agent.updated' and payload->>'changed' ~ '"(block|tool)_ids"');
create index events_runs_ended on {schema}.events (about)
    where topic in ('run.completed', 'run.failed', 'run.cancelled');
create index events_calls on {schema}.events ((payload->>'tool_call_id'))
    where topic in ('tool_call.started', 'tool_call.finished', 'tool_call.returned',
                    'tool_call.refused', 'tool_call.forbidden', 'tool_call.interrupted');
-- Topics that are rare in a long conversation: of all others it has one in each of its runs. The
-- collation keeps Postgres from using this index for anything but the list of an agent's events.
create index events_rare on {schema}.events (aggregate_id, (topic collate "C"), version)
    where topic collate "C" not in ('message.appended', 'run.accepted', 'run.started',
                                    'run.completed', 'model.replied');

create view {schema}.part_of_agent_view as
    select e.aggregate_id as agent_id, e.org, p.id
    from {schema}.events e cross join lateral (
        select json_array_elements_text(e.payload->'block_ids') as id
        union all
        select json_array_elements_text(coalesce(e.payload->'tool_ids', '[]')) as id
    ) p
    where e.topic in ('agent.created', 'agent.block_attached')
       or (e.topic = 'agent.updated' and e.payload->>'changed' ~ '"(block|tool)_ids"');
comment on view {schema}.part_of_agent_view is
    'The blocks and tools that agents have, or had; each as often as it was said.';

create view {schema}.accepted_run_view as
    select about as run_id, org, aggregate_id as conversation_id, commit_order, position
    from {schema}.events
    where topic = 'run.accepted';
comment on view {schema}.accepted_run_view is 'When runs were accepted.';

create view {schema}.ended_run_view as
    select about as run_id, org, occurred_at
    from {schema}.events
    where topic in ('run.completed', 'run.failed', 'run.cancelled');
comment on view {schema}.ended_run_view is 'When runs ended.';

create view {schema}.called_tool_view as
    select about as run_id, org, payload->>'tool_call_id' as tool_call_id
    from {schema}.events
    where topic in ('tool_call.started', 'tool_call.finished', 'tool_call.returned',
                    'tool_call.refused', 'tool_call.forbidden', 'tool_call.interrupted');
comment on view {schema}.called_tool_view is 'In which runs tools were called.';

grant select on {schema}.part_of_agent_view, {schema}.accepted_run_view, {schema}.ended_run_view,
    {schema}.called_tool_view to heeler_reader;

-- Summaries --------------------------------------------------------------------------------------

create table {schema}.summaries (
    id           text primary key,
    org          text not null,
    agent_id     text not null,
    summaries_id text not null,
    created_at   timestamptz not null,
    status       text not null,
    error        jsonb,
    fields       jsonb not null
);
create index summaries_unfinished on {schema}.summaries (created_at) where status = 'running';
create index summaries_agent on {schema}.summaries (summaries_id, created_at);
comment on column {schema}.summaries.status is
    'running, completed or failed; it runs until it is also saved in the archive, or that failed.';
comment on column {schema}.summaries.fields is 'The summary as clients read it.';

create view {schema}.summary_view as
    select id, org, agent_id, created_at, status, error, fields from {schema}.summaries;
grant select on {schema}.summary_view to heeler_reader;

-- Replays of runs --------------------------------------------------------------------------------

create table {schema}.run_replays (
    id         text primary key,
    org        text not null,
    agent_id   text not null,
    run_id     text not null,
    created_at timestamptz not null,
    status     text not null,
    error      jsonb,
    fields     jsonb not null
);
create index run_replays_unfinished on {schema}.run_replays (created_at) where status = 'running';
create index run_replays_run on {schema}.run_replays (run_id, created_at, id collate "C");
comment on column {schema}.run_replays.status is 'running, completed or failed.';
comment on column {schema}.run_replays.fields is 'The replay as clients read it, without its steps.';

create table {schema}.run_replay_steps (
    replay_id   text not null,
    number      int not null,
    org         text not null,
    recorded    json,
    replayed    json,
    answers     json not null,
    differences json not null,
    primary key (replay_id, number)
);
comment on table {schema}.run_replay_steps is
    'Each step of a replay beside the recorded one; null where one of them has no such step.';

create view {schema}.run_replay_view as
    select id, org, agent_id, run_id, created_at, status, error, fields from {schema}.run_replays;
create view {schema}.run_replay_step_view as
    select replay_id, number, org, recorded, replayed, answers, differences
    from {schema}.run_replay_steps;
grant select on {schema}.run_replay_view, {schema}.run_replay_step_view to heeler_reader;

-- Models and prices ------------------------------------------------------------------------------

-- A model that is not listed can be used by its name, but is not offered in lists.
create table {schema}.models (
    handle   text not null,
    kind     text not null check (kind in ('llm', 'embedding')),
    position int not null,
    fields   jsonb not null,
    listed   boolean not null default true,
    primary key (kind, handle)
);
comment on table {schema}.models is 'What the configured providers offer; a cache of theirs.';

create view {schema}.model_view as
    select handle, kind, position, fields, listed from {schema}.models;

create table {schema}.prices (
    model        text not null,
    since        timestamptz not null,
    version      text not null,
    input        numeric not null,
    cached_input numeric not null,
    cache_write  numeric not null,
    output       numeric not null,
    primary key (model, since)
);
comment on table {schema}.prices is
    'US dollars for a million tokens, from a time on: a copy of the tables that the service reads.
Costs of steps are computed when they are read.';

create view {schema}.price_view as
    select model, since, version, input, cached_input, cache_write, output from {schema}.prices;

grant select on {schema}.model_view, {schema}.price_view to heeler_reader;
