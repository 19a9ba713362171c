-- What is searched one by one is the vectors of a collection, and each lay on a page of its own where
-- many collections grow at once. Here they lie together, in the order of time, with all that such a
-- search asks of a passage; of the table itself only what was found is read. A row of an index has at
-- most 2,704 bytes: longer vectors, such as OpenAI's, are read from the table as before. A model's name
-- has at most 200 characters (`configured_embedders.py`), so each row that is in it fits.

create index passages_vectors on {schema}.passages (collection_id, created_at)
    include (id, org, embedding_model, embedding) where vector_dims(embedding) <= 768;
-- Postgres reads an index alone only where it has looked through the pages of the table since they were
-- written (vacuum), which it does by itself when so much of the table is new, instead of a fifth.
alter table {schema}.passages set (autovacuum_vacuum_insert_scale_factor = 0.05);
