-- Passages of an archive without an embedding config are shown without a vector, as V1 shows them.
-- They have one all the same, of the model that comes with the server, so that they are found by
-- their meaning.

create or replace view {schema}.archive_passage_view as
    select p.id, p.org, p.collection_id as archive_id, p.created_at, p.text, p.tags, p.doc,
           left(p.doc::text, -1)
               || ', "metadata": ' || coalesce(p.metadata::text, '{}')
               || ', "embedding": ' || coalesce(
                   case when a.doc->>'embedding_config' is not null then p.embedding::text end,
                   'null')
               || ', "embedding_config": ' || coalesce((a.doc->'embedding_config')::text, 'null')
               || '}' as document
    from {schema}.passages p join {schema}.archives a on a.id = p.collection_id and a.org = p.org;
