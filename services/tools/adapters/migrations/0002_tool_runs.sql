-- Calls of tools: what was called for whom, and what came of it.

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

create view {schema}.tool_run_view as
    select r.id, r.org, r.created_at, r.tool_id, r.name, r.agent_id, r.run_id, r.tool_call_id,
           r.status, r.result,
           coalesce((select l.expires_at > now() from {schema}.leases l where l.key = r.id), false)
               as alive
    from {schema}.tool_runs r;
comment on view {schema}.tool_run_view is
    'Calls of tools; result is null until there is one, alive says whether a process makes it.';
grant select on {schema}.tool_run_view to heeler_reader;
