-- Uploads: files that clients send, in parts, until the memory service has read them. An upload that
-- stays incomplete belongs to a client that hung up or to a process that died, and is deleted.

create table {schema}.uploads (
    file_id  text primary key,
    org      text not null,
    bytes    bigint not null default 0,
    complete boolean not null default false,
    seen_at  timestamptz not null default now()
);
create index uploads_seen on {schema}.uploads (seen_at);
create index uploads_of_org on {schema}.uploads (org collate "C");

create table {schema}.upload_parts (
    file_id text not null,
    number  int not null,
    org     text not null,
    data    bytea not null,
    primary key (file_id, number)
);
-- Most of what is uploaded is compressed already.
alter table {schema}.upload_parts alter column data set storage external;

-- Uploads may contain anything: only the memory service reads them.
create view {schema}.upload_part_view as
    select file_id, number, org, data from {schema}.upload_parts;
comment on view {schema}.upload_part_view is 'The bytes of files that are not parsed yet.';
grant select on {schema}.upload_part_view to heeler_memory;
