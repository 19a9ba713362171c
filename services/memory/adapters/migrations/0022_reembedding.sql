-- Archives whose passages get the vectors of another model: which these are, and what embedded them
-- before, so that what has not got its vector yet is found by the one that it has.

create table {schema}.archive_reembeddings (
    id              text primary key,
    org             text not null,
    model           text not null,
    dimensions      int not null,
    previous_config json,
    started_at      timestamptz not null
);

create view {schema}.archive_embedding_view as
    select a.id, a.org, a.created_at,
           json_build_object(
               'archive_id', a.id,
               'embedding_config', a.doc->'embedding_config',
               'status', case when r.id is null then 'completed' else 'running' end,
               'started_at', r.started_at,
               'passages', (select count(*) from {schema}.passages p where p.collection_id = a.id),
               'embedded', (select count(*) from {schema}.passages p where p.collection_id = a.id
                            and (r.id is null or (p.embedding_model = r.model
                                 and vector_dims(p.embedding) = r.dimensions)))
           )::text as document
    from {schema}.archives a left join {schema}.archive_reembeddings r on r.id = a.id;
comment on view {schema}.archive_embedding_view is
    'What embeds each archive, and how many of its passages it has embedded.';
grant select on {schema}.archive_embedding_view to heeler_reader;
