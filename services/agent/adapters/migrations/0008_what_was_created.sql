-- Everything that was ever created, also what is gone: a list goes on after a row that is no more.

create view {schema}.created_agent_view as
    select aggregate_id as id, org,
           min(occurred_at) filter (where topic = 'agent.created') as created_at,
           max((payload->'config'->>'updated_at')::timestamptz) as updated_at
    from {schema}.events
    where topic in ('agent.created', 'agent.updated')
    group by aggregate_id, org;
comment on view {schema}.created_agent_view is 'Agents that were ever created.';

create index events_run_accepted on {schema}.events (about) where topic = 'run.accepted';
create view {schema}.created_run_view as
    select about as id, org, (payload->'run'->>'created_at')::timestamptz as created_at
    from {schema}.events
    where topic = 'run.accepted';
comment on view {schema}.created_run_view is 'Runs that were ever accepted.';
grant select on {schema}.created_agent_view, {schema}.created_run_view to heeler_reader;
