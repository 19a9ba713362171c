-- A snapshot is read only by code whose state has the form that it was taken from (ADR 18). Each
-- form has a snapshot of its own, so processes of two releases do not overwrite each other's. The
-- table of before stays for processes that were started before this migration; what is in it says
-- nothing of its form, so nobody else reads it, and states are made from the events once more.

create table {schema}.state_snapshots (
    aggregate_id  text not null,
    state_version text not null,
    version       int not null,
    org           text not null,
    state         json not null,
    constraint state_snapshots_key primary key (aggregate_id, state_version)
);
comment on table {schema}.state_snapshots is
    'States as they were at a version. They may be deleted: states are made from the events then.';
comment on table {schema}.snapshots is
    'Snapshots of releases before state_snapshots. Only their processes read and write it.';
