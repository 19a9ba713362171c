-- Agents, messages and runs as clients read them: ready V1 fragments in `doc` and `docs`.

create table {schema}.agents (
    id               text primary key,
    org              text not null,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    name             text not null,
    conversation_id  text not null,
    block_ids        text[] not null,
    tags             text[] not null,
    tools            jsonb not null,
    doc              jsonb not null
);
create index agents_page on {schema}.agents (org, created_at, id);
create index agents_name on {schema}.agents (org, name);
create index agents_tags on {schema}.agents using gin (tags);
create index agents_blocks on {schema}.agents using gin (block_ids);
comment on column {schema}.agents.doc is 'The V1 agent without its relationships.';

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
    docs            jsonb not null
);
-- Not unique: that a position comes once is what the version of the event guarantees.
create index messages_page on {schema}.messages (conversation_id, position);
create index messages_run on {schema}.messages (run_id, position) where run_id is not null;
comment on column {schema}.messages.docs is 'The V1 messages that this one is served as.';

create table {schema}.runs (
    id              text primary key,
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    created_at      timestamptz not null,
    status          text not null,
    stop_reason     text,
    background      boolean not null,
    request_hash    text not null,
    error           jsonb,
    usage           jsonb,
    doc             jsonb not null
);
create index runs_page on {schema}.runs (org, created_at, id);
create index runs_agent on {schema}.runs (agent_id, created_at, id);

create table {schema}.creations (
    agent_id     text primary key,
    org          text not null,
    actor        text not null,
    requested_at timestamptz not null
);
comment on table {schema}.creations is 'Agents whose blocks are being made; swept every 2 s.';

create table {schema}.models (
    handle   text not null,
    kind     text not null check (kind in ('llm', 'embedding')),
    position int not null,
    doc      jsonb not null,
    primary key (kind, handle)
);
comment on table {schema}.models is 'What the configured providers offer; a cache of theirs.';

create view {schema}.agent_view as
    select id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, doc
    from {schema}.agents;
create view {schema}.agent_block_view as
    select a.org, a.id as agent_id, b.block_id, b.position
    from {schema}.agents a, unnest(a.block_ids) with ordinality as b(block_id, position);
create view {schema}.message_view as
    select id, org, agent_id, conversation_id, position, run_id, step_id, role, created_at,
           sent, in_context, text, docs
    from {schema}.messages;
create view {schema}.run_view as
    select id, org, agent_id, conversation_id, created_at, status, stop_reason, background,
           request_hash, error, usage, doc
    from {schema}.runs;
create view {schema}.model_view as select handle, kind, position, doc from {schema}.models;
grant select on {schema}.agent_view, {schema}.agent_block_view, {schema}.message_view,
    {schema}.run_view, {schema}.model_view to heeler_reader;
