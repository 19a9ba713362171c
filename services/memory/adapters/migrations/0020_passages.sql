-- What is searched by meaning and by words: a row for each passage of an archive and for each chunk of
-- a file. `collection_id` is the archive or the folder, `owner_id` the aggregate whose events say what
-- stands here. Vectors are compared only with those of the same model. Whoever knows that a vector is
-- there knows its text: so it is in no view.

create extension if not exists vector;
create extension if not exists btree_gin;

create table {schema}.passages (
    id              text primary key,
    org             text not null,
    collection_id   text not null,
    owner_id        text not null,
    file_id         text,
    created_at      timestamptz not null,
    version         int not null,
    text            text not null,
    tags            text[] not null,
    doc             jsonb not null,
    metadata        json,
    embedding_model text,
    embedding       halfvec,
    large           boolean not null default false,
    search          tsvector not null
        generated always as (to_tsvector('english', left(text, 50000))) stored
);
comment on column {schema}.passages.large is
    'Whether its collection is large enough for an index of vectors: written by no event.';
-- What a search reads stays beside the rest of the row, and what it does not goes out of the way.
alter table {schema}.passages alter column embedding set storage main;

create index passages_page on {schema}.passages (collection_id, created_at, id collate "C");
create index passages_owner on {schema}.passages (owner_id);
-- A list of what was written is read at every search: it is kept short.
create index passages_words on {schema}.passages using gin (collection_id, search)
    with (fastupdate = off);
create index passages_tags on {schema}.passages using gin (collection_id, tags)
    with (fastupdate = off);

create view {schema}.passage_view as
    select id, org, collection_id, file_id, created_at, version, text, tags, doc,
           left(doc::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document
    from {schema}.passages;
comment on view {schema}.passage_view is
    'Passages of archives and files; document is the V1 passage as text, without its vector.';
grant select on {schema}.passage_view to heeler_reader;
