-- The event store of one service: events and their order, delivery to and from the bus, leases.
-- A service writes only its own schema. Other services read the views that it publishes.

-- Events ---------------------------------------------------------------------------------------

-- Payloads are json, not jsonb, here and wherever a client's own JSON is stored: jsonb sorts keys
-- and prints numbers in full, so 1e308 becomes 309 digits.
create table {schema}.events (
    position       bigint generated always as identity primary key,
    xid            xid8 not null default pg_current_xact_id(),
    aggregate_id   text not null,
    version        int not null check (version > 0),
    topic          text not null,
    schema_version int not null,
    org            text not null,
    about          text not null,
    payload        json not null,
    metadata       jsonb not null,
    occurred_at    timestamptz not null,
    commit_order   bigint not null default pg_current_xact_id()::text::bigint,
    constraint events_version_key unique (aggregate_id, version)
);
create index events_log_order on {schema}.events (xid, position);
-- The aggregates that an import began, or began again after they had been deleted.
create index events_imported on {schema}.events ((metadata->>'import'), aggregate_id collate "C")
    where metadata ? 'begins';
create index events_begun on {schema}.events (aggregate_id, version) where metadata ? 'begins';
-- Finds the events of a time; next to nothing for whoever inserts.
create index events_time on {schema}.events using brin (occurred_at) with (pages_per_range = 32);
comment on table {schema}.events is 'The truth. Services may insert and select, nothing else.';
comment on column {schema}.events.commit_order is
    'Orders the commits of all services: one that had ended before another began has the smaller
number, also across a restore into another cluster.';

create table {schema}.log (
    position       bigint primary key,
    event_position bigint not null
);
comment on table {schema}.log is
    'The dense, commit-safe order of the events, assigned by the relay after the commit.';

create view {schema}.event_log as
    select l.position, e.occurred_at, e.topic, e.about, e.aggregate_id, e.version, e.org,
           e.payload, e.metadata, e.schema_version, e.commit_order
    from {schema}.log l join {schema}.events e on e.position = l.event_position;
comment on view {schema}.event_log is
    'The log for people and for other services: order by position.';
grant select on {schema}.event_log to heeler_reader;

create view {schema}.recorded_event_view as
    select position, aggregate_id, version, topic, schema_version, org, about, payload, metadata,
           occurred_at, commit_order, xid < pg_snapshot_xmin(pg_current_snapshot()) as settled
    from {schema}.events;
comment on view {schema}.recorded_event_view is
    'Events from their commit on, ordered by (commit_order, position) over all services. Below one
that is settled no other will appear.';
grant select on {schema}.recorded_event_view to heeler_reader;

-- Versions of an aggregate are in the order of commits, so a version is found by halving: there is no
-- index by that order, which each event would pay for.
create function {schema}.version_at(of_aggregate text, last_order bigint, last_position bigint)
returns int language plpgsql stable as $$
declare
    low int := 0;
    high int := coalesce((select max(e.version) from {schema}.recorded_event_view e
                          where e.aggregate_id = of_aggregate), 0);
    middle int;
begin
    while low < high loop
        middle := (low + high + 1) / 2;
        if exists (select from {schema}.recorded_event_view e
                   where e.aggregate_id = of_aggregate and e.version = middle
                     and (e.commit_order, e.position) <= (last_order, last_position)) then
            low := middle;
        else
            high := middle - 1;
        end if;
    end loop;
    return low;
end $$;
comment on function {schema}.version_at is
    'The last version of an aggregate in the order of commits up to there; 0 for none.';

-- The clocks of processes differ a little, and may be set back: so this is about right.
create function {schema}.version_before(of_aggregate text, moment timestamptz)
returns int language plpgsql stable as $$
declare
    low int := 0;
    high int := coalesce((select max(e.version) from {schema}.recorded_event_view e
                          where e.aggregate_id = of_aggregate), 0);
    middle int;
begin
    while low < high loop
        middle := (low + high + 1) / 2;
        if exists (select from {schema}.recorded_event_view e
                   where e.aggregate_id = of_aggregate and e.version = middle
                     and e.occurred_at < moment) then
            low := middle;
        else
            high := middle - 1;
        end if;
    end loop;
    return low;
end $$;
comment on function {schema}.version_before is
    'About the last version of an aggregate before a moment; 0 for none.';

-- A snapshot is read only by code whose state has the same version (ADR 18). Each state version has
-- a snapshot of its own, so processes of two releases do not overwrite each other's.
create table {schema}.snapshots (
    aggregate_id  text not null,
    state_version text not null,
    version       int not null,
    org           text not null,
    state         json not null,
    constraint snapshots_key primary key (aggregate_id, state_version)
);
comment on table {schema}.snapshots is
    'States as they were at a version. Rows may be deleted: states are then folded from the events.';

-- The bus: what was published, handled and read ----------------------------------------------------

create table {schema}.relay (
    one            boolean primary key default true check (one),
    xid            xid8 not null default '0',
    event_position bigint not null default 0,
    position       bigint not null default 0,
    published      bigint not null default 0
);
insert into {schema}.relay default values;
create view {schema}.log_head_view as select position from {schema}.relay;
comment on view {schema}.log_head_view is
    'The last position of the log: one row to look at, however long the log is.';
grant select on {schema}.log_head_view to heeler_reader;
comment on table {schema}.relay is
    'One row: the last event that the relay numbered, and the last position that it published.';

create table {schema}.inbox (
    message_id text constraint inbox_message_key primary key,
    reply      text not null,
    handled_at timestamptz not null default now()
);
create index inbox_age on {schema}.inbox (handled_at);
comment on table {schema}.inbox is 'Messages that were handled, each with its reply.';

create table {schema}.positions (
    upstream text primary key,
    position bigint not null
);
comment on table {schema}.positions is
    'The last position of each other service''s log that this service has projected.';

-- Leases ---------------------------------------------------------------------------------------

create sequence {schema}.epochs;
create table {schema}.leases (
    key        text primary key,
    holder     text not null,
    epoch      bigint not null default nextval('{schema}.epochs'),
    expires_at timestamptz not null,
    taken_over boolean not null default false
) with (fillfactor = 70);
comment on table {schema}.leases is
    'Which process works on what. A row exists as long as there is work; any process may take an
expired lease. No two leases ever have the same epoch. taken_over: the process that held it before
has died, or failed; a lease that was given back in order has no row.';

-- Failed messages --------------------------------------------------------------------------------

create table {schema}.attempts (
    message_id text primary key,
    attempts   int not null,
    first_at   timestamptz not null default now(),
    last_at    timestamptz not null default now(),
    free_at    timestamptz not null
);
comment on table {schema}.attempts is
    'Failed attempts of messages. No process begins the next attempt before free_at: another works
on the message, or a pause runs. A message that succeeds at its first attempt has no row.';

create table {schema}.dead_letters (
    id             text primary key,
    org            text not null,
    created_at     timestamptz not null,
    service        text not null,
    kind           text not null check (kind in ('command', 'event', 'run', 'work')),
    name           text not null,
    subject        text not null,
    message_id     text not null,
    payload        json,
    payload_text   text,
    context        jsonb not null,
    attempts       int not null,
    first_at       timestamptz not null,
    last_at        timestamptz not null,
    error_class    text not null,
    error_text     text not null,
    correlation_id text not null,
    status         text not null check (status in ('parked', 'replaying', 'replayed')),
    outcome        jsonb
);
create index dead_letters_page on {schema}.dead_letters
    (org collate "C", created_at, id collate "C");
create index dead_letters_open on {schema}.dead_letters (org) where status <> 'replayed';
comment on table {schema}.dead_letters is
    'Messages that failed for good. payload is what was sent, payload_text what was not JSON.';

create view {schema}.dead_letter_view as
    select id, org, created_at, service, kind, name, subject, message_id, payload, payload_text,
           context, attempts, first_at, last_at, error_class, error_text, correlation_id, status,
           outcome
    from {schema}.dead_letters;
comment on view {schema}.dead_letter_view is 'Dead letters, for the api.';
grant select on {schema}.dead_letter_view to heeler_reader;

-- Erasure ---------------------------------------------------------------------------------------

-- The only change of events that there is: of aggregates that were deleted, or whose owner was, the
-- payload makes room for a tombstone. Services may call it, and cannot write to the table.
create function {schema}.erase_events(
    ids text[], kept_topics text[], at timestamptz, events_max integer)
returns bigint language sql security definer set search_path = '' as $$
    with due as (
        select aggregate_id, version from {schema}.events e
        where aggregate_id = any(ids) and topic <> all(kept_topics) and not metadata ? 'erased'
          -- What was imported again since it was deleted stays.
          and not exists (
            select from {schema}.events b
            where b.aggregate_id = e.aggregate_id and b.metadata ? 'begins'
              and b.version <= e.version and not exists (
                select from {schema}.events d
                where d.aggregate_id = e.aggregate_id and d.version > b.version
                  and d.topic = any(kept_topics)))
        limit events_max
    ), erased as (
        update {schema}.events e
        set payload = json_build_object('erased_at', at), metadata = metadata || '{"erased": true}'
        from due where e.aggregate_id = due.aggregate_id and e.version = due.version
        returning e.metadata->>'command_id' as command_id
    ), states as (
        delete from {schema}.snapshots where aggregate_id = any(ids)
    ), replies as (
        delete from {schema}.inbox where message_id in (select command_id from erased)
    ), letters as (
        delete from {schema}.dead_letters
        where split_part(subject, '.', -1) = any(ids)
    )
    select count(*) from erased
$$;
comment on function {schema}.erase_events is
    'Replaces the payloads of aggregates by tombstones, which keep id, kind, time and who asked, of
at most events_max events, and returns of how many;
forgets their snapshots, the replies to their commands, and dead letters about them.';
revoke execute on function {schema}.erase_events from public;

-- Counts -----------------------------------------------------------------------------------------

-- How many rows an organisation has in a table: a count of them would read them all. Each connection
-- adds to one of 32 parts, by its process id, so that commits rarely wait for each other.
create table {schema}.row_counts (
    name text not null,
    org  text not null,
    part int not null,
    rows bigint not null,
    primary key (name, org, part)
) with (fillfactor = 70);
comment on table {schema}.row_counts is
    'How many rows of an organisation came to a table, less those that went, by the connections that
wrote them: the sum is the number of its rows. Written by triggers alone.';

create view {schema}.row_count_view as select name, org, rows from {schema}.row_counts;
comment on view {schema}.row_count_view is 'The parts of the numbers of rows of organisations.';
grant select on {schema}.row_count_view to heeler_reader;

create function {schema}.count_rows() returns trigger language plpgsql as $$
begin
    if tg_op = 'TRUNCATE' then
        delete from {schema}.row_counts where name = tg_table_name;
        return null;
    end if;
    insert into {schema}.row_counts (name, org, part, rows)
    select tg_table_name, c.org, pg_backend_pid() % 32, c.rows from (
        select org, case tg_op when 'INSERT' then count(*) else -count(*) end as rows
        from changed group by org order by org) c
    on conflict (name, org, part) do update set rows = row_counts.rows + excluded.rows;
    return null;
end $$;
comment on function {schema}.count_rows is 'Counts rows that come and go, for row_counts.';

create procedure {schema}.keep_count_of(counted text) language plpgsql as $$
begin
    execute format('create trigger count_new after insert on {schema}.%1$I
        referencing new table as changed for each statement
        execute function {schema}.count_rows()', counted);
    execute format('create trigger count_old after delete on {schema}.%1$I
        referencing old table as changed for each statement
        execute function {schema}.count_rows()', counted);
    execute format('create trigger count_none after truncate on {schema}.%1$I
        for each statement execute function {schema}.count_rows()', counted);
end $$;
comment on procedure {schema}.keep_count_of is 'Have the rows of a table counted from now on.';

-- Read models -----------------------------------------------------------------------------------

create table {schema}.rebuilds (
    read_model text primary key,
    asked_at   timestamptz not null default now()
);
comment on table {schema}.rebuilds is
    'Read models to be rebuilt from the events: by deploy.migrate, or by make rebuild. A migration
that adds a column that the events know inserts the name of its table here.';
