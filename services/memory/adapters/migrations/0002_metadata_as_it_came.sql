-- A block's metadata is the client's own and is served as it came: jsonb would print 1e308 as 309
-- digits. The rest of a block is ours, and is changed field by field.

alter table {schema}.blocks add column metadata json;
update {schema}.blocks set metadata = (doc->'metadata')::json, doc = doc - 'metadata';
comment on column {schema}.blocks.doc is 'The V1 block without its metadata.';

create or replace view {schema}.block_view as
    select id, org, created_at, version, label, doc,
           left(doc::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document
    from {schema}.blocks;
comment on view {schema}.block_view is
    'Memory blocks; document is the V1 block as text, doc what is searched by.';
