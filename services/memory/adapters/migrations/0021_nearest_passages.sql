-- The nearest vectors of large collections, by HNSW; of the others all are compared, which is exact and
-- costs nothing when a passage is written. A collection becomes large in the background, once it is
-- searched and has many: its rows are marked a few at a time, and each pays for the graph then. For
-- each length that models have there is one graph, since a graph has vectors of one length.

create table {schema}.large_collections (
    collection_id text primary key,
    org           text not null,
    found_at      timestamptz not null default now()
);
comment on table {schema}.large_collections is
    'Collections whose passages are in a graph of vectors, or on their way there.';

-- What is not in a graph is compared one by one: all of a small collection, the newest of a large one.
create index passages_small on {schema}.passages (collection_id) where not large;
create index passages_near_384 on {schema}.passages
    using hnsw ((embedding::halfvec(384)) halfvec_ip_ops) where large and vector_dims(embedding) = 384;
create index passages_near_768 on {schema}.passages
    using hnsw ((embedding::halfvec(768)) halfvec_ip_ops) where large and vector_dims(embedding) = 768;
create index passages_near_1024 on {schema}.passages
    using hnsw ((embedding::halfvec(1024)) halfvec_ip_ops)
    where large and vector_dims(embedding) = 1024;
create index passages_near_1536 on {schema}.passages
    using hnsw ((embedding::halfvec(1536)) halfvec_ip_ops)
    where large and vector_dims(embedding) = 1536;
create index passages_near_3072 on {schema}.passages
    using hnsw ((embedding::halfvec(3072)) halfvec_ip_ops)
    where large and vector_dims(embedding) = 3072;
