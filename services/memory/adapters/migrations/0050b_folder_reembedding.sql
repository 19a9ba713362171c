-- Folders whose chunks get the vectors of another model: as archives.

create table {schema}.folder_reembeddings (
    id              text primary key,
    org             text not null,
    model           text not null,
    dimensions      int not null,
    previous_config json,
    started_at      timestamptz not null
);

create view {schema}.folder_embedding_view as
    select f.id, f.org, f.created_at,
           json_build_object(
               'folder_id', f.id,
               'embedding_config', f.doc->'embedding_config',
               'status', case when r.id is null then 'completed' else 'running' end,
               'started_at', r.started_at,
               'passages', (select count(*) from {schema}.passages p where p.collection_id = f.id),
               'embedded', (select count(*) from {schema}.passages p where p.collection_id = f.id
                            and (r.id is null or (p.embedding_model = r.model
                                 and vector_dims(p.embedding) = r.dimensions)))
           )::text as document
    from {schema}.folders f left join {schema}.folder_reembeddings r on r.id = f.id;
comment on view {schema}.folder_embedding_view is
    'What embeds each folder, and how many of its passages it has embedded.';
grant select on {schema}.folder_embedding_view to heeler_reader;
