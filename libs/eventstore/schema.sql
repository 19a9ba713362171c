-- The event store of one service. Everything a service knows is in its own schema; others read
-- only the views that it publishes.

create table {schema}.events (
    position       bigint generated always as identity primary key,
    xid            xid8 not null default pg_current_xact_id(),
    aggregate_id   text not null,
    version        int not null check (version > 0),
    topic          text not null,
    schema_version int not null,
    org            text not null,
    about          text not null,
    payload        jsonb not null,
    metadata       jsonb not null,
    occurred_at    timestamptz not null,
    constraint events_version_key unique (aggregate_id, version)
);
create index events_log_order on {schema}.events (xid, position);
comment on table {schema}.events is 'The truth. Services may insert and select, nothing else.';

create table {schema}.log (
    position       bigint primary key,
    event_position bigint not null
);
comment on table {schema}.log is
    'The dense, commit-safe order of the events, given by the relay after the commit.';

create table {schema}.relay (
    one            boolean primary key default true check (one),
    xid            xid8 not null default '0',
    event_position bigint not null default 0,
    position       bigint not null default 0,
    published      bigint not null default 0
);
insert into {schema}.relay default values;

create table {schema}.inbox (
    message_id text constraint inbox_message_key primary key,
    reply      text not null,
    handled_at timestamptz not null default now()
);
create index inbox_age on {schema}.inbox using brin (handled_at);

create table {schema}.snapshots (
    aggregate_id text primary key,
    version      int not null,
    state        jsonb not null
);

create sequence {schema}.epochs;
create table {schema}.leases (
    key        text primary key,
    holder     text not null,
    epoch      bigint not null default nextval('{schema}.epochs'),
    expires_at timestamptz not null
) with (fillfactor = 70);
comment on table {schema}.leases is
    'Who works on what. A row is there as long as there is something to do; one that has run out is
work for whoever comes first. No two leases ever have the same epoch.';

create table {schema}.positions (
    upstream text primary key,
    position bigint not null
);

create view {schema}.event_log as
    select l.position, e.occurred_at, e.topic, e.about, e.aggregate_id, e.version, e.org,
           e.payload, e.metadata, e.schema_version
    from {schema}.log l join {schema}.events e on e.position = l.event_position;
comment on view {schema}.event_log is
    'The log for people and for other services: order by position.';
grant select on {schema}.event_log to heeler_reader;
