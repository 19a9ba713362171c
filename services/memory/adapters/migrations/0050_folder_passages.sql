-- The passages of files as clients read them, vectors and all, as V1 shows them: as those of archives.

create view {schema}.folder_passage_view as
    select p.id, p.org, p.collection_id as folder_id, p.created_at, p.text,
           left(p.doc::text, -1)
               || ', "metadata": ' || coalesce(p.metadata::text, '{}')
               || ', "embedding": ' || coalesce(p.embedding::text, 'null')
               || ', "embedding_config": ' || coalesce((f.doc->'embedding_config')::text, 'null')
               || '}' as document
    from {schema}.passages p join {schema}.folders f on f.id = p.collection_id and f.org = p.org;
comment on view {schema}.folder_passage_view is
    'Passages of files; document is the V1 passage as text, with its vector.';
grant select on {schema}.folder_passage_view to heeler_reader;
