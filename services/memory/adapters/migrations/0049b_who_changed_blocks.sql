-- Which agent's tool changed a block last, for the others that it is attached to.

alter table {schema}.blocks add column changed_by text;
create or replace view {schema}.block_view as
    select id, org, created_at, version, label, doc,
           left(doc::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document,
           changed_by
    from {schema}.blocks;
insert into {schema}.rebuilds values ('blocks') on conflict do nothing;
