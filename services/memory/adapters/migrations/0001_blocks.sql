-- Memory blocks as clients read them, one row each.

create table {schema}.blocks (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    version    int not null,
    label      text not null,
    doc        jsonb not null
);
create index blocks_page on {schema}.blocks (org, created_at, id);
create index blocks_label on {schema}.blocks (org, label);

create view {schema}.block_view as
    select id, org, created_at, version, label, doc from {schema}.blocks;
comment on view {schema}.block_view is 'Memory blocks; doc is the V1 block.';
grant select on {schema}.block_view to heeler_reader;
