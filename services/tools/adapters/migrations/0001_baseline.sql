-- The tools service: tools, MCP servers, sandboxes, permissions and tool runs.
--
-- Indexes of lists have their organisation and their id under the collation "C", which only lists ask
-- for: before a table is analyzed, Postgres would otherwise take such an index for the key of a row
-- and read all that the organisation has.

-- Finds what contains a text.
create extension if not exists pg_trgm;

-- Tools ------------------------------------------------------------------------------------------

-- JSON that a client wrote is kept in columns of type json, in the order of its keys: models read
-- schemas in order. An approval of a call holds for one revision of the tool.
create table {schema}.tools (
    id               text primary key,
    org              text not null,
    created_at       timestamptz not null,
    updated_at       timestamptz not null,
    name             text not null,
    tool_type        text not null,
    tags             text[] not null,
    fields           jsonb not null,
    json_schema      json,
    args_json_schema json,
    pip_requirements json,
    npm_requirements json,
    metadata_        json,
    revision         integer not null default 1
);
create index tools_page on {schema}.tools (org collate "C", created_at, id collate "C");
create index tools_name on {schema}.tools (org collate "C", name collate "C");
create index tools_type on {schema}.tools (tool_type collate "C");
create index tools_names on {schema}.tools (name);
create index tools_types on {schema}.tools (tool_type);
create index tools_tags on {schema}.tools using gin (tags);
create index tools_named_like on {schema}.tools using gin (name gin_trgm_ops);
call {schema}.keep_count_of('tools');
comment on column {schema}.tools.fields is 'The V1 tool without the JSON that the client wrote.';

create view {schema}.tool_view as
    select id, org, created_at, updated_at, name, tool_type, tags, fields,
           left(fields::text, -1)
               || ', "json_schema": ' || coalesce(json_schema::text, 'null')
               || ', "args_json_schema": ' || coalesce(args_json_schema::text, 'null')
               || ', "pip_requirements": ' || coalesce(pip_requirements::text, 'null')
               || ', "npm_requirements": ' || coalesce(npm_requirements::text, 'null')
               || ', "metadata_": ' || coalesce(metadata_::text, 'null') || '}'
               as document,
           json_schema, revision
    from {schema}.tools;
comment on view {schema}.tool_view is
    'Tools that clients made; document is the V1 tool as text, fields what is searched by.';
grant select on {schema}.tool_view to heeler_reader;

-- Also deleted tools: a list continues after an item that was deleted.
create view {schema}.created_tool_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'tool.created';
comment on view {schema}.created_tool_view is 'Tools that were ever created.';
grant select on {schema}.created_tool_view to heeler_reader;

create view {schema}.tool_event_view as
    select aggregate_id as tool_id, org, version, topic, payload, commit_order
    from {schema}.events
    where topic in ('tool.created', 'tool.changed', 'tool.deleted');
comment on view {schema}.tool_event_view is 'What has become of tools that clients made.';
grant select on {schema}.tool_event_view to heeler_reader;

-- Tool runs --------------------------------------------------------------------------------------

create table {schema}.tool_runs (
    id           text primary key,
    org          text not null,
    created_at   timestamptz not null,
    tool_id      text not null,
    name         text not null,
    agent_id     text not null,
    run_id       text not null,
    tool_call_id text not null,
    status       text not null,
    result       jsonb
);
create index tool_runs_running on {schema}.tool_runs (id) where status = 'running';
create index tool_runs_page on {schema}.tool_runs (org collate "C", created_at, id collate "C");
create index tool_runs_name on {schema}.tool_runs (name, created_at, id collate "C");
create index tool_runs_status on {schema}.tool_runs (status, created_at, id collate "C");
create index tool_runs_agent on {schema}.tool_runs (agent_id, created_at, id collate "C");

create view {schema}.tool_run_view as
    select r.id, r.org, r.created_at, r.tool_id, r.name, r.agent_id, r.run_id, r.tool_call_id,
           r.status, r.result,
           coalesce((select l.expires_at > now() from {schema}.leases l where l.key = r.id), false)
               as alive
    from {schema}.tool_runs r;
comment on view {schema}.tool_run_view is
    'Tool runs; result is null until there is one, alive says whether a process holds the lease.';
grant select on {schema}.tool_run_view to heeler_reader;

-- MCP servers ------------------------------------------------------------------------------------

-- document is the V1 server with its secrets sealed; sampling: whether the server may ask the models
-- of the agents that call its tools; discovery: the state of the discovery of its tools; tools: the
-- ids of its tools by the names that it gives them; due_at: when the next discovery is due, null for
-- never.
create table {schema}.mcp_servers (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    name       text not null,
    declared   boolean not null,
    version    integer not null,
    document   json not null,
    discovery  jsonb not null,
    tools      json not null,
    due_at     timestamptz,
    sampling   boolean not null default false
);
create index mcp_servers_page on {schema}.mcp_servers
    (org collate "C", created_at, id collate "C");
create index mcp_servers_name on {schema}.mcp_servers (org collate "C", name collate "C");
create index mcp_servers_due on {schema}.mcp_servers (due_at) where due_at is not null;

create view {schema}.mcp_server_view as
    select id, org, created_at, name, discovery, tools,
           left(document::text, -1) || ', "sampling": ' || sampling::text
               || ', "discovery": ' || (discovery - 'number')::text || '}' as document
    from {schema}.mcp_servers;
comment on view {schema}.mcp_server_view is
    'MCP servers; document is the V1 server as text, with its secrets sealed.';
grant select on {schema}.mcp_server_view to heeler_reader;

-- Sandboxes --------------------------------------------------------------------------------------

create table {schema}.sandbox_configs (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    type       text not null,
    config     json not null,
    generation integer not null
);
create index sandbox_configs_page on {schema}.sandbox_configs
    (org collate "C", created_at, id collate "C");

create view {schema}.sandbox_config_view as
    select id, org, created_at, updated_at, type, config from {schema}.sandbox_configs;
comment on view {schema}.sandbox_config_view is 'Settings of sandboxes, as clients make them.';
grant select on {schema}.sandbox_config_view to heeler_reader;

create table {schema}.sandbox_variables (
    id          text primary key,
    org         text not null,
    config_id   text not null,
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    key         text not null,
    value       text not null,
    description text
);
create index sandbox_variables_page on {schema}.sandbox_variables
    (config_id, created_at, id collate "C");

create view {schema}.sandbox_variable_view as
    select id, org, config_id, created_at, updated_at, key, value, description
    from {schema}.sandbox_variables;
comment on view {schema}.sandbox_variable_view is
    'Environment variables of sandboxes; the values are sealed.';
grant select on {schema}.sandbox_variable_view to heeler_reader;

-- Permissions ------------------------------------------------------------------------------------

-- A row for each scope (an organisation, a project, an agent) that has a list; null means no limit.
-- Every process keeps all rows in memory, so there are few.
create table {schema}.tool_permissions (
    id           text primary key,
    org          text not null,
    kind         text not null,
    scope_id     text not null,
    tools        text[],
    capabilities text[],
    revision     bigint not null
);
create index tool_permissions_org on {schema}.tool_permissions (org collate "C");

create view {schema}.tool_permission_view as
    select id, org, kind, scope_id, tools, capabilities, revision
    from {schema}.tool_permissions;
comment on view {schema}.tool_permission_view is
    'Which tools may be called, by scope; revision differs whenever a row does.';
grant select on {schema}.tool_permission_view to heeler_reader;
