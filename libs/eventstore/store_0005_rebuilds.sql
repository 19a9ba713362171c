-- Read models that a migration wants rebuilt, because it added what the events have and the rows
-- lack: insert into {schema}.rebuilds values ('<table>') on conflict do nothing;

create table {schema}.rebuilds (
    read_model text primary key,
    asked_at   timestamptz not null default now()
);
comment on table {schema}.rebuilds is
    'Read models that wait to be rebuilt from the events: by the migration, or by make rebuild.';
