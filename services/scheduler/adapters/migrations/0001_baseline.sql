-- The scheduler service: schedules and their firings.
--
-- Indexes of lists have their organisation and their id under the collation "C", which only lists ask
-- for: before a table is analyzed, Postgres would otherwise take such an index for the key of a row
-- and read all that the organisation has.

create table {schema}.schedules (
    id         text primary key,
    org        text not null,
    agent_id   text not null,
    created_at timestamptz not null,
    next_at    timestamptz,
    status     text not null,
    fields     jsonb not null
);
create index schedules_page on {schema}.schedules (org collate "C", created_at, id collate "C");
create index schedules_agent on {schema}.schedules (agent_id, created_at, id collate "C");
create index schedules_status on {schema}.schedules (status, created_at, id collate "C");
create index schedules_name on {schema}.schedules
    ((fields->>'name'), created_at, id collate "C") where fields->>'name' is not null;
create index schedules_failed on {schema}.schedules (org collate "C", created_at, id collate "C")
    where fields->>'last_error' is not null;
create index schedules_due on {schema}.schedules (next_at) where next_at is not null;
create index schedules_completed on {schema}.schedules (agent_id, org) where status = 'completed';
comment on column {schema}.schedules.status is 'active, paused or completed.';
comment on column {schema}.schedules.next_at is
    'The next slot; null while the schedule is paused, and once it has completed.';

create view {schema}.schedule_view as
    select id, org, agent_id, created_at, next_at, status, fields from {schema}.schedules;
comment on view {schema}.schedule_view is
    'Schedules. fields is the schedule as its client asked for it, with last_slot, last_error and
last_skipped.';
grant select on {schema}.schedule_view to heeler_reader;

-- Also deleted ones: a list continues after an item that was deleted.
create view {schema}.created_schedule_view as
    select aggregate_id as id, org,
           (payload->'schedule'->>'created_at')::timestamptz as created_at
    from {schema}.events
    where topic = 'schedule.created';
comment on view {schema}.created_schedule_view is 'Schedules that were ever created.';
grant select on {schema}.created_schedule_view to heeler_reader;

create table {schema}.firings (
    id          text primary key,
    org         text not null,
    schedule_id text not null,
    agent_id    text not null,
    created_at  timestamptz not null,
    slot        timestamptz not null,
    run_id      text not null,
    status      text not null,
    attempts    int not null,
    retry_at    timestamptz,
    error       text,
    fields      jsonb not null
);
create index firings_schedule on {schema}.firings (schedule_id, created_at, id collate "C");
create index firings_open on {schema}.firings (schedule_id) where status in ('running', 'retrying');
create index firings_retried on {schema}.firings (retry_at) where status = 'retrying';
comment on column {schema}.firings.status is
    'running, retrying, completed, cancelled, skipped or dead_letter.';
comment on column {schema}.firings.run_id is
    'What its latest attempt started: a run of the agent, a tool run or a run of a group.';

create view {schema}.firing_view as
    select id, org, schedule_id, agent_id, created_at, slot, run_id, status, attempts, retry_at,
           error, fields
    from {schema}.firings;
comment on view {schema}.firing_view is 'Firings that have not ended, and the newest that have.';
grant select on {schema}.firing_view to heeler_reader;

create index events_firing_started on {schema}.events (about) where topic = 'firing.started';
create view {schema}.created_firing_view as
    select about as id, org, aggregate_id as schedule_id, occurred_at as created_at
    from {schema}.events
    where topic = 'firing.started';
comment on view {schema}.created_firing_view is 'Firings that ever began.';
grant select on {schema}.created_firing_view to heeler_reader;

create index events_schedules on {schema}.events ((payload->'schedule'->>'agent_id'))
    where topic = 'schedule.created' and payload->'schedule'->>'agent_id' <> '';
