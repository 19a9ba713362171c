-- The groups service: groups, their members, and what they share.

-- Groups -----------------------------------------------------------------------------------------

create table {schema}.groups (
    id               text primary key,
    org              text not null,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    name             text,
    manager_type     text not null,
    manager_agent_id text,
    agent_ids        text[] not null,
    hidden           boolean,
    fields           jsonb not null,
    metadata         jsonb not null,
    shared_state     jsonb not null,
    state_version    int not null
);
create index groups_page on {schema}.groups (org collate "C", created_at, id collate "C");
create index groups_type on {schema}.groups (manager_type, created_at, id collate "C");
create index groups_name on {schema}.groups (name, created_at, id collate "C")
    where name is not null;
create index groups_project on {schema}.groups ((fields->>'project_id'), created_at, id collate "C")
    where fields->>'project_id' is not null;
create index groups_members on {schema}.groups using gin (agent_ids);
create index groups_hidden on {schema}.groups (org collate "C") where coalesce(hidden, false);
call {schema}.keep_count_of('groups');
create index groups_manager on {schema}.groups (manager_agent_id)
    where manager_agent_id is not null;
create index groups_deployment on {schema}.groups ((fields->>'deployment_id'))
    where fields->>'deployment_id' is not null;
comment on column {schema}.groups.fields is
    'The V1 group, and the fields of an agent group but for its metadata and its shared state.';

create table {schema}.group_members (
    id        text primary key,
    group_id  text not null,
    agent_id  text not null,
    org       text not null,
    joined_at timestamptz not null
);
create index group_members_group on {schema}.group_members (group_id);
create index group_members_agent on {schema}.group_members (agent_id, joined_at);

create table {schema}.shared_blocks (
    id       text primary key,
    group_id text not null,
    agent_id text not null,
    block_id text not null,
    status   text not null,
    org      text not null
);
create index shared_blocks_group on {schema}.shared_blocks (group_id);
create index shared_blocks_agent on {schema}.shared_blocks (agent_id, block_id);
comment on table {schema}.shared_blocks is
    'Blocks that groups offer to agents, or share with them; also of deleted groups, until they are
taken back. What an agent had before, or cannot have, is not taken back.';

create table {schema}.reviews (
    id           text primary key,
    group_id     text not null,
    org          text not null,
    requested_at timestamptz not null
);
create index reviews_group on {schema}.reviews (group_id);
comment on table {schema}.reviews is
    'Reviews of sleeptime groups whose runs are not all accepted yet.';

create view {schema}.group_view as
    select id, org, created_at, updated_at, name, manager_type, manager_agent_id, agent_ids,
           coalesce(hidden, false) as hidden, fields, metadata, shared_state, state_version,
           (fields - '{name,hops_max,shared_state_mode,created_at}'::text[])::text as document,
           (fields || jsonb_build_object('metadata', metadata, 'shared_state', shared_state,
               'shared_state_version', state_version))::text as agent_group
    from {schema}.groups;
comment on view {schema}.group_view is
    'Groups; document is the V1 group as text, agent_group the same with the fields that V1 lacks.';

create view {schema}.group_member_view as
    select m.id, m.group_id, m.agent_id, m.org, m.joined_at,
           array_position(g.agent_ids, m.agent_id) as position
    from {schema}.group_members m join {schema}.groups g on g.id = m.group_id and g.org = m.org;
comment on view {schema}.group_member_view is 'Which agents are in which groups, since when.';

create index events_group_manager on {schema}.events
    (coalesce(payload->'config'->>'manager_agent_id', payload->'changes'->>'manager_agent_id'))
    where topic in ('group.created', 'group.updated')
      and coalesce(payload->'config'->>'manager_agent_id', payload->'changes'->>'manager_agent_id')
        <> '';

create view {schema}.created_group_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'group.created';
comment on view {schema}.created_group_view is 'Groups that were ever created.';

grant select on {schema}.group_view, {schema}.group_member_view, {schema}.created_group_view
    to heeler_reader;
-- The groups service.

-- Routing ----------------------------------------------------------------------------------------

create table {schema}.routed_messages (
    id          text primary key,
    org         text not null,
    created_at  timestamptz not null,
    pattern     text not null,
    recipients  jsonb not null,
    status      text not null,
    deadline_at timestamptz not null,
    bids_until  timestamptz,
    ended_at    timestamptz,
    answers     jsonb,
    error       jsonb
);
create index routed_messages_page on {schema}.routed_messages
    (org collate "C", created_at, id collate "C");
create index routed_messages_pattern on {schema}.routed_messages
    (pattern, created_at, id collate "C");
create index routed_messages_status on {schema}.routed_messages
    (status, created_at, id collate "C");
create index routed_messages_active on {schema}.routed_messages (created_at)
    where status = 'active';
comment on column {schema}.routed_messages.bids_until is
    'Bids that are not there then are not waited for; null where none are asked for.';
comment on column {schema}.routed_messages.answers is
    'The numbers of the deliveries that are the result; null until there is one.';

create table {schema}.routed_deliveries (
    routed_message_id text not null,
    number            int not null,
    org               text not null,
    agent_id          text not null,
    run_id            text not null,
    purpose           text not null,
    stage             int not null,
    status            text not null,
    sent_at           timestamptz not null,
    ended_at          timestamptz,
    bid               float8,
    reason            text,
    primary key (routed_message_id, number)
);
comment on table {schema}.routed_deliveries is
    'The delivery log: each agent that a routed message went to, and what came of it.';

create table {schema}.subscribers (
    id         text primary key,
    topic_id   text not null,
    org        text not null,
    topic      text not null,
    agent_id   text not null,
    created_at timestamptz not null
);
create index subscribers_topic on {schema}.subscribers (org, topic);
create index subscribers_aggregate on {schema}.subscribers (topic_id);
create index subscribers_agent on {schema}.subscribers (agent_id);

create view {schema}.routed_message_view as
    select id, org, created_at, pattern, recipients, status, deadline_at, ended_at, answers, error
    from {schema}.routed_messages;
create view {schema}.routed_delivery_view as
    select routed_message_id, number, org, agent_id, run_id, purpose, stage, status, sent_at,
           ended_at, bid, reason
    from {schema}.routed_deliveries;
create view {schema}.subscriber_view as
    select id, topic_id, org, topic, agent_id, created_at from {schema}.subscribers;
grant select on {schema}.routed_message_view, {schema}.routed_delivery_view,
    {schema}.subscriber_view to heeler_reader;

-- Messages to groups -------------------------------------------------------------------------------

-- is_pending: something is left to be done; is_open: its members' conversations go when the group
-- is deleted.
create table {schema}.group_conversations (
    id         text primary key,
    org        text not null,
    group_id   text not null,
    is_pending boolean not null,
    is_open    boolean not null
);
create index group_conversations_pending on {schema}.group_conversations (id) where is_pending;
create index group_conversations_open on {schema}.group_conversations (group_id) where is_open;

create table {schema}.group_runs (
    id              text primary key,
    org             text not null,
    conversation_id text not null,
    group_id        text not null,
    created_at      timestamptz not null,
    status          text not null,
    fields          jsonb not null
);
create index group_runs_page on {schema}.group_runs (group_id, created_at, id collate "C");
create index group_runs_conversation on {schema}.group_runs (conversation_id);

create table {schema}.group_hops (
    id              text primary key,
    org             text not null,
    conversation_id text not null,
    run_id          text not null,
    hop             int not null,
    member_run_id   text not null,
    status          text not null,
    fields          jsonb not null
);
create index group_hops_run on {schema}.group_hops (run_id, hop);
create index group_hops_conversation on {schema}.group_hops (conversation_id);

create table {schema}.group_messages (
    id              text primary key,
    org             text not null,
    conversation_id text not null,
    group_id        text not null,
    number          int not null,
    run_id          text not null,
    hop             int,
    created_at      timestamptz not null,
    sender_id       text,
    recipients      text[] not null,
    message_type    text not null,
    fields          jsonb not null
);
create index group_messages_page on {schema}.group_messages (group_id, number);
create index group_messages_conversation on {schema}.group_messages (conversation_id);
create index group_messages_run on {schema}.group_messages (run_id, number);

create view {schema}.group_run_view as
    select r.id, r.org, r.group_id, r.created_at, r.status, r.fields,
           (r.fields || jsonb_build_object(
               'hops', coalesce((
                   select jsonb_agg(h.fields order by h.hop)
                   from {schema}.group_hops h where h.run_id = r.id), '[]'::jsonb),
               'run_ids', coalesce((
                   select jsonb_agg(h.member_run_id order by h.hop)
                   from {schema}.group_hops h where h.run_id = r.id), '[]'::jsonb)
           ))::text as document
    from {schema}.group_runs r;
comment on view {schema}.group_run_view is 'Runs of groups, each with its hops.';

create view {schema}.group_hop_view as
    select id, org, run_id, hop, member_run_id, status, fields from {schema}.group_hops;
comment on view {schema}.group_hop_view is 'Which member answered when in which run of a group.';

create view {schema}.group_message_view as
    select id, org, group_id, number, run_id, hop, created_at, sender_id, recipients, message_type,
           fields, fields::text as document
    from {schema}.group_messages;
comment on view {schema}.group_message_view is
    'The transcripts of groups as V1 messages; number is the place in the transcript.';

grant select on {schema}.group_run_view, {schema}.group_hop_view, {schema}.group_message_view
    to heeler_reader;
