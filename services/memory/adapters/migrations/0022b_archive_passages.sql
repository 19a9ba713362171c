-- The passages of archives that exist as clients read them, vectors and all, as V1 shows them to whom
-- they belong. Those of a deleted archive are not there, however long they take to be removed.

create view {schema}.archive_passage_view as
    select p.id, p.org, p.collection_id as archive_id, p.created_at, p.text, p.tags, p.doc,
           left(p.doc::text, -1)
               || ', "metadata": ' || coalesce(p.metadata::text, '{}')
               || ', "embedding": ' || coalesce(p.embedding::text, 'null')
               || ', "embedding_config": ' || coalesce((a.doc->'embedding_config')::text, 'null')
               || '}' as document
    from {schema}.passages p join {schema}.archives a on a.id = p.collection_id and a.org = p.org;
comment on view {schema}.archive_passage_view is
    'Passages of archives; document is the V1 passage as text, with its vector.';

create view {schema}.embedding_size_view as
    select p.id, p.org, 2::bigint * coalesce(vector_dims(p.embedding), 0) as bytes
    from {schema}.passages p;
comment on view {schema}.embedding_size_view is 'The room that the vector of each passage takes.';

create view {schema}.created_passage_view as
    select aggregate_id as id, org,
           coalesce((payload->>'created_at')::timestamptz, occurred_at) as created_at
    from {schema}.events
    where topic = 'passage.created';
comment on view {schema}.created_passage_view is 'Passages of archives that were ever created.';

grant select on {schema}.archive_passage_view, {schema}.created_passage_view,
    {schema}.embedding_size_view to heeler_reader;
