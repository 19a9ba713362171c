-- The memory service: blocks, archives and their passages, folders and files, message vectors.
--
-- Indexes of lists have their organisation and their id under the collation "C", which only lists ask
-- for: before a table is analyzed, Postgres would otherwise take such an index for the key of a row
-- and read all that the organisation has. JSON that a client wrote, such as metadata, has the type
-- json and is served as it was sent.
--
-- The created_*_views list deleted items too: a list continues after an item that was deleted.

create extension if not exists vector;
create extension if not exists btree_gin;
create extension if not exists pg_trgm;

create function {schema}.moment(at timestamptz) returns text language sql immutable as
    $$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

-- Blocks -----------------------------------------------------------------------------------------

-- changed_by is the agent whose tool changed the block last, for the other agents that it is
-- attached to.
create table {schema}.blocks (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    version    int not null,
    label      text not null,
    fields     jsonb not null,
    metadata   json,
    changed_by text
);
create index blocks_page on {schema}.blocks (org collate "C", created_at, id collate "C");
create index blocks_label on {schema}.blocks
    (org collate "C", label collate "C", created_at, id collate "C");
-- Few blocks have tags; which tags exist is read from these alone.
create index blocks_tagged on {schema}.blocks (org) where fields->'tags' <> '[]';
create index blocks_tags on {schema}.blocks using gin ((fields->'tags'))
    where fields->'tags' <> '[]';
create index blocks_templates on {schema}.blocks (org collate "C", created_at, id collate "C")
    where (fields->>'is_template')::boolean;
create index blocks_name on {schema}.blocks ((fields->>'template_name'), created_at, id collate "C")
    where fields->>'template_name' is not null;
create index blocks_project on {schema}.blocks
    ((fields->>'project_id'), created_at, id collate "C") where fields->>'project_id' is not null;
-- For what contains a text. The lists of pending entries are short, so that no commit sorts much.
create index blocks_labelled_like on {schema}.blocks using gin (label gin_trgm_ops)
    with (gin_pending_list_limit = 256);
create index blocks_described_like on {schema}.blocks
    using gin ((fields->>'description') gin_trgm_ops) with (gin_pending_list_limit = 256);
create index blocks_valued_like on {schema}.blocks
    using gin ((fields->>'value') gin_trgm_ops) with (gin_pending_list_limit = 256);
call {schema}.keep_count_of('blocks');
create index blocks_deployment on {schema}.blocks ((fields->>'deployment_id'))
    where fields->>'deployment_id' is not null;
comment on column {schema}.blocks.fields is 'The V1 block without its metadata.';

create view {schema}.block_view as
    select id, org, created_at, version, label, fields,
           left(fields::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document,
           changed_by
    from {schema}.blocks;
comment on view {schema}.block_view is
    'Memory blocks; document is the V1 block as text, fields what is searched by.';

create view {schema}.block_tag_view as
    select b.org, t.tag
    from {schema}.blocks b cross join lateral jsonb_array_elements_text(
        case jsonb_typeof(b.fields->'tags') when 'array' then b.fields->'tags' else '[]' end) t (tag)
    where b.fields->'tags' <> '[]';
comment on view {schema}.block_tag_view is 'The tags of each block.';

create view {schema}.block_version_view as
    select aggregate_id as id, org, version, occurred_at as created_at, topic,
           coalesce(payload->'block', payload->'changes', '{}')::jsonb as fields,
           nullif((payload->'cause')::jsonb, 'null') as cause,
           (payload->>'restored_version')::int as restored_version,
           metadata->>'actor' as actor
    from {schema}.events
    where topic in ('block.created', 'block.changed', 'block.deleted');
comment on view {schema}.block_version_view is
    'The versions of each block, also of deleted ones. fields has all values of the first version,
and the changed ones of the others.';

create view {schema}.created_block_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'block.created';
comment on view {schema}.created_block_view is 'Blocks that were ever created.';

grant select on {schema}.block_view, {schema}.block_tag_view, {schema}.block_version_view,
    {schema}.created_block_view to heeler_reader;

-- Passages ---------------------------------------------------------------------------------------

-- What is searched by meaning and by words: a row for each passage of an archive and each chunk of a
-- file. collection_id is the archive or the folder, owner_id the aggregate whose events make the row.
-- A vector is compared only with vectors of the same model.
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
    fields          jsonb not null,
    metadata        json,
    embedding_model text,
    embedding       halfvec,
    signs           varbit generated always as (
        case when vector_dims(embedding) > 768 then binary_quantize(embedding) end) stored,
    search          tsvector not null
        generated always as (to_tsvector('english', left(text, 50000))) stored
);
comment on column {schema}.passages.signs is
    'Of a vector of more than 768 numbers, of each whether it is above zero.';
-- Postgres shrinks a row over 2 kB, such as one with a vector of 1,024 numbers, by moving columns out
-- of it. What a search reads of every row stays in it; texts and documents, which are read only of
-- the rows that are found, go out.
alter table {schema}.passages
    alter column id set storage main,
    alter column org set storage main,
    alter column collection_id set storage main,
    alter column owner_id set storage main,
    alter column file_id set storage main,
    alter column tags set storage main,
    alter column embedding_model set storage main,
    alter column embedding set storage main,
    alter column signs set storage main;

create index passages_page on {schema}.passages (collection_id, created_at, id collate "C");
create index passages_owner on {schema}.passages (owner_id);
-- Without fastupdate: each search reads the list of pending entries. The collation keeps Postgres
-- from using these indexes to filter by dates, for which it would read the whole collection.
create index passages_words on {schema}.passages
    using gin ((collection_id collate "C"), search) with (fastupdate = off);
create index passages_tags on {schema}.passages
    using gin ((collection_id collate "C"), tags) with (fastupdate = off);
-- A search compares all vectors of a collection. In this index they lie together, in the order of
-- time, with all that such a search reads. An entry has at most 2,704 bytes: of longer vectors, such
-- as OpenAI's, the next index has the signs, and few are read from the table. A model's name has at
-- most 200 characters (`configured_embedders.py`), so each row that is in one of them fits.
create index passages_vectors on {schema}.passages (collection_id, created_at)
    include (id, org, embedding_model, embedding) where vector_dims(embedding) <= 768;
create index passages_signs on {schema}.passages (collection_id, created_at)
    include (id, org, embedding_model, signs) where length(signs) <= 8000;
-- Postgres reads an index alone only after a vacuum: it comes when this share of the table is new.
alter table {schema}.passages set (autovacuum_vacuum_insert_scale_factor = 0.05);

create view {schema}.passage_view as
    select id, org, collection_id, file_id, created_at, version, text, tags, fields,
           left(fields::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document
    from {schema}.passages;
comment on view {schema}.passage_view is
    'Passages of archives and files; document is the V1 passage as text, without its vector.';

create view {schema}.embedding_size_view as
    select p.id, p.org, 2::bigint * coalesce(vector_dims(p.embedding), 0) as bytes
    from {schema}.passages p;
comment on view {schema}.embedding_size_view is 'How many bytes the vector of each passage takes.';

grant select on {schema}.passage_view, {schema}.embedding_size_view to heeler_reader;

-- Archives ---------------------------------------------------------------------------------------

create table {schema}.archives (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    version    int not null,
    name       text not null,
    fields     jsonb not null,
    metadata   json
);
create index archives_page on {schema}.archives (org collate "C", created_at, id collate "C");
create index archives_name on {schema}.archives (name, created_at, id collate "C");
comment on column {schema}.archives.fields is 'The V1 archive without its metadata.';

create table {schema}.archive_agents (
    id          text primary key,
    archive_id  text not null,
    agent_id    text not null,
    org         text not null,
    attached_at timestamptz not null
);
create index archive_agents_archive on {schema}.archive_agents (archive_id);
create index archive_agents_agent on {schema}.archive_agents (agent_id, attached_at);

create table {schema}.archive_removals (
    id         text primary key,
    org        text not null,
    deleted_at timestamptz not null
);
comment on table {schema}.archive_removals is
    'Deleted archives whose passages are still to be removed.';

create table {schema}.archive_reembeddings (
    id              text primary key,
    org             text not null,
    model           text not null,
    dimensions      int not null,
    previous_config json,
    started_at      timestamptz not null
);
comment on table {schema}.archive_reembeddings is
    'Archives whose passages get vectors of another model. A passage without a new vector is found by
its vector of the previous model.';

create view {schema}.archive_view as
    select id, org, created_at, version, name, fields,
           left(fields::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document
    from {schema}.archives;
comment on view {schema}.archive_view is 'Archives; document is the V1 archive as text.';

create view {schema}.archive_agent_view as
    select archive_id, agent_id, org, attached_at from {schema}.archive_agents;
comment on view {schema}.archive_agent_view is 'Which archives are attached to which agents.';

create view {schema}.archive_embedding_view as
    select a.id, a.org, a.created_at,
           json_build_object(
               'archive_id', a.id,
               'embedding_config', a.fields->'embedding_config',
               'status', case when r.id is null then 'completed' else 'running' end,
               'started_at', r.started_at,
               'passages', (select count(*) from {schema}.passages p where p.collection_id = a.id),
               'embedded', (select count(*) from {schema}.passages p where p.collection_id = a.id
                            and (r.id is null or (p.embedding_model = r.model
                                 and vector_dims(p.embedding) = r.dimensions)))
           )::text as document
    from {schema}.archives a left join {schema}.archive_reembeddings r on r.id = a.id;
comment on view {schema}.archive_embedding_view is
    'The embedding config of each archive, and how many of its passages are embedded.';

-- The passages of existing archives, with their vectors; those of a deleted archive are left out at
-- once. Passages of an archive without an embedding config are shown without a vector, as V1 shows
-- them; they have one of the bundled model, by which they are found.
create view {schema}.archive_passage_view as
    select p.id, p.org, p.collection_id as archive_id, p.created_at, p.text, p.tags, p.fields,
           left(p.fields::text, -1)
               || ', "metadata": ' || coalesce(p.metadata::text, '{}')
               || ', "embedding": ' || coalesce(
                   case when a.fields->>'embedding_config' is not null then p.embedding::text end,
                   'null')
               || ', "embedding_config": ' || coalesce((a.fields->'embedding_config')::text, 'null')
               || '}' as document
    from {schema}.passages p join {schema}.archives a on a.id = p.collection_id and a.org = p.org;
comment on view {schema}.archive_passage_view is
    'Passages of archives; document is the V1 passage as text, with its vector.';

create view {schema}.created_archive_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'archive.created';
comment on view {schema}.created_archive_view is 'Archives that were ever created.';

create view {schema}.created_passage_view as
    select aggregate_id as id, org,
           coalesce((payload->>'created_at')::timestamptz, occurred_at) as created_at
    from {schema}.events
    where topic = 'passage.created';
comment on view {schema}.created_passage_view is 'Passages of archives that were ever created.';

grant select on {schema}.archive_view, {schema}.archive_agent_view,
    {schema}.archive_embedding_view, {schema}.archive_passage_view,
    {schema}.created_archive_view, {schema}.created_passage_view to heeler_reader;

-- Folders and files ------------------------------------------------------------------------------

create table {schema}.folders (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    name       text not null,
    fields     jsonb not null,
    metadata   json
);
create index folders_page on {schema}.folders (org collate "C", created_at, id collate "C");
create index folders_name on {schema}.folders (org collate "C", name collate "C");
call {schema}.keep_count_of('folders');

create table {schema}.files (
    id              text primary key,
    org             text not null,
    folder_id       text not null,
    created_at      timestamptz not null,
    updated_at      timestamptz not null,
    name            text not null,
    original_name   text not null,
    status          text not null,
    error_message   text,
    file_type       text not null,
    file_size       bigint not null,
    text_id         text,
    lines           int,
    chars           bigint,
    total_chunks    int,
    chunks_embedded int,
    due_at          timestamptz not null
);
create index files_page on {schema}.files (folder_id, created_at, id collate "C");
create index files_name on {schema}.files (folder_id, original_name collate "C");
create index files_of_org on {schema}.files (org collate "C");
create index files_unfinished on {schema}.files (due_at) where status not in ('completed', 'error');
create index files_text on {schema}.files (text_id);

-- A file's text is too large for an event. Its rows are written before the `file.parsed` that names
-- them, and read only after it.
create table {schema}.file_texts (
    text_id     text not null,
    number      int not null,
    org         text not null,
    file_id     text not null,
    first_line  int not null,
    last_line   int not null,
    first_chunk int not null,
    chunks      int not null,
    text        text not null,
    written_at  timestamptz not null default now(),
    primary key (text_id, number)
);
create index file_texts_line on {schema}.file_texts (text_id, last_line);
create index file_texts_chunk on {schema}.file_texts (text_id, first_chunk);
create index file_texts_written on {schema}.file_texts (written_at) where number = 0;
comment on table {schema}.file_texts is
    'Texts of files in segments that follow each other; a line is cut only where it is very long.';

create table {schema}.folder_reembeddings (
    id              text primary key,
    org             text not null,
    model           text not null,
    dimensions      int not null,
    previous_config json,
    started_at      timestamptz not null
);
comment on table {schema}.folder_reembeddings is
    'Folders whose chunks get vectors of another model: as archive_reembeddings.';

create view {schema}.folder_view as
    select id, org, created_at, updated_at, name, fields, metadata,
           left(fields::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null')
               || ', "created_at": ' || to_json({schema}.moment(created_at))
               || ', "updated_at": ' || to_json({schema}.moment(updated_at)) || '}' as document
    from {schema}.folders;
comment on view {schema}.folder_view is 'Folders; document is the V1 folder as text.';

create view {schema}.file_view as
    select f.id, f.org, f.folder_id, f.created_at, f.updated_at, f.name, f.original_name, f.status,
           f.error_message, f.file_type, f.file_size, f.text_id, f.lines, f.chars, f.total_chunks,
           f.chunks_embedded, json_build_object(
               'source_id', f.folder_id,
               'file_name', f.name,
               'original_file_name', f.original_name,
               'file_path', null,
               'file_type', f.file_type,
               'file_size', f.file_size,
               'file_creation_date', null,
               'file_last_modified_date', null,
               'processing_status', f.status,
               'error_message', f.error_message,
               'total_chunks', f.total_chunks,
               'chunks_embedded', f.chunks_embedded,
               'content', null,
               'id', f.id,
               'organization_id', f.org,
               'created_at', {schema}.moment(f.created_at),
               'updated_at', {schema}.moment(f.updated_at)
           ) as document
    from {schema}.files f;
comment on view {schema}.file_view is 'Files of folders; name is the one that the folder has.';

create view {schema}.file_text_view as
    select f.id as file_id, f.org, f.folder_id, f.lines, f.chars,
           t.number, t.first_line, t.last_line, t.text
    from {schema}.files f join {schema}.file_texts t on t.text_id = f.text_id and t.org = f.org;
comment on view {schema}.file_text_view is
    'The texts of files in segments, in the order of number; lines count from 1.';

create view {schema}.folder_passage_view as
    select p.id, p.org, p.collection_id as folder_id, p.created_at, p.text,
           left(p.fields::text, -1)
               || ', "metadata": ' || coalesce(p.metadata::text, '{}')
               || ', "embedding": ' || coalesce(p.embedding::text, 'null')
               || ', "embedding_config": ' || coalesce((f.fields->'embedding_config')::text, 'null')
               || '}' as document
    from {schema}.passages p join {schema}.folders f on f.id = p.collection_id and f.org = p.org;
comment on view {schema}.folder_passage_view is
    'Passages of files; document is the V1 passage as text, with its vector.';

create view {schema}.folder_embedding_view as
    select f.id, f.org, f.created_at,
           json_build_object(
               'folder_id', f.id,
               'embedding_config', f.fields->'embedding_config',
               'status', case when r.id is null then 'completed' else 'running' end,
               'started_at', r.started_at,
               'passages', (select count(*) from {schema}.passages p where p.collection_id = f.id),
               'embedded', (select count(*) from {schema}.passages p where p.collection_id = f.id
                            and (r.id is null or (p.embedding_model = r.model
                                 and vector_dims(p.embedding) = r.dimensions)))
           )::text as document
    from {schema}.folders f left join {schema}.folder_reembeddings r on r.id = f.id;
comment on view {schema}.folder_embedding_view is
    'The embedding config of each folder, and how many of its passages are embedded.';

create view {schema}.created_folder_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events where topic = 'folder.created';
comment on view {schema}.created_folder_view is 'Folders that were ever created.';

create view {schema}.created_file_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events where topic = 'file.added';
comment on view {schema}.created_file_view is 'Files that were ever added to a folder.';

grant select on {schema}.folder_view, {schema}.file_view, {schema}.file_text_view,
    {schema}.folder_passage_view, {schema}.folder_embedding_view, {schema}.created_folder_view,
    {schema}.created_file_view to heeler_reader;

-- Folders of agents ------------------------------------------------------------------------------

create table {schema}.agent_folders (
    id         text primary key,
    owner_id   text not null,
    org        text not null,
    agent_id   text not null,
    folder_id  text not null,
    created_at timestamptz not null
);
create index agent_folders_agent on {schema}.agent_folders (agent_id, created_at);
create index agent_folders_folder on {schema}.agent_folders (folder_id);
create index agent_folders_owner on {schema}.agent_folders (owner_id);
comment on table {schema}.agent_folders is 'Which folders are attached to which agents.';

create table {schema}.open_files (
    id         text primary key,
    owner_id   text not null,
    org        text not null,
    agent_id   text not null,
    file_id    text not null,
    first_line int,
    last_line  int,
    opened_at  timestamptz not null
);
create index open_files_agent on {schema}.open_files (agent_id, file_id);
create index open_files_owner on {schema}.open_files (owner_id);
comment on table {schema}.open_files is
    'Which files an agent has open, and which of their lines its models are shown.';

create view {schema}.agent_folder_view as
    select agent_id, folder_id, org, created_at from {schema}.agent_folders;
comment on view {schema}.agent_folder_view is 'Which folders are attached to which agents.';

create view {schema}.agent_file_view as
    select f.id, a.org, a.agent_id, f.folder_id, d.name as folder_name,
           d.name || '/' || f.name as name, f.created_at, f.lines, o.id is not null as is_open,
           o.first_line, o.last_line, o.opened_at
    from {schema}.agent_folders a
    join {schema}.folders d on d.id = a.folder_id and d.org = a.org
    join {schema}.files f on f.folder_id = a.folder_id and f.org = a.org
    left join {schema}.open_files o
        on o.agent_id = a.agent_id and o.file_id = f.id and o.org = a.org;
comment on view {schema}.agent_file_view is
    'Files of the folders of each agent; is_open says whether its models are shown the lines.';

grant select on {schema}.agent_folder_view, {schema}.agent_file_view to heeler_reader;

-- Message vectors --------------------------------------------------------------------------------

-- No event makes these rows: they follow from the messages and the model, are made at the first
-- search, and a rebuild leaves them as they are. Each row has what a search is narrowed by, so that a
-- search reads nothing of other owners.
create table {schema}.message_vectors (
    message_id      text primary key,
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    role            text not null,
    created_at      timestamptz not null,
    model           text not null,
    embedding       halfvec not null
);
alter table {schema}.message_vectors
    alter column message_id set storage main,
    alter column org set storage main,
    alter column agent_id set storage main,
    alter column conversation_id set storage main,
    alter column role set storage main,
    alter column model set storage main,
    alter column embedding set storage main;
create index message_vectors_agent on {schema}.message_vectors (agent_id, created_at);
create index message_vectors_conversation on {schema}.message_vectors (conversation_id, created_at);
create index message_vectors_org on {schema}.message_vectors (org collate "C", created_at);
comment on table {schema}.message_vectors is
    'Vectors of messages, in no view: a vector gives away the text.';

create table {schema}.message_backlog (
    org             text not null,
    agent_id        text not null,
    conversation_id text not null,
    asked_at        timestamptz not null,
    worked_at       timestamptz not null,
    primary key (org, agent_id, conversation_id)
);
comment on table {schema}.message_backlog is
    'Histories that were searched and are not embedded yet; an empty id means all.';

create table {schema}.forgotten_conversations (
    conversation_id text primary key,
    org             text not null,
    deleted_at      timestamptz not null
);
comment on table {schema}.forgotten_conversations is
    'Deleted conversations whose vectors are removed a few at a time.';

-- Events of what an agent has ---------------------------------------------------------------------

create index events_archives on {schema}.events ((payload->>'agent_id'))
    where topic in ('archive.created', 'archive.attached') and payload->>'agent_id' <> '';
create index events_folders on {schema}.events (aggregate_id, version)
    where topic = 'agent_folders.attached';
create index events_files on {schema}.events ((payload->>'folder_id'))
    where topic = 'file.added' and payload->>'folder_id' <> '';
-- The second conditions keep these indexes from being read whole by what asks for a topic alone.
-- An archive may have 100,000 passages, with few events each: they are read in the order of commits.
create index events_passages on {schema}.events
    ((payload->>'archive_id'), commit_order, position)
    where topic in ('passage.created', 'passage.embedded', 'passage.deleted')
      and payload->>'archive_id' <> '';

create view {schema}.archive_of_agent_view as
    select payload->>'agent_id' as agent_id, org, aggregate_id as id
    from {schema}.events
    where topic in ('archive.created', 'archive.attached') and payload->>'agent_id' <> '';
comment on view {schema}.archive_of_agent_view is
    'The archives that agents have, or had; each as often as it was said.';

create view {schema}.folder_of_agent_view as
    select aggregate_id as agent_folders_id, org, payload->>'folder_id' as id
    from {schema}.events
    where topic = 'agent_folders.attached';
comment on view {schema}.folder_of_agent_view is
    'The folders that agents have, or had; each as often as it was said.';

create view {schema}.file_of_folder_view as
    select payload->>'folder_id' as folder_id, org, aggregate_id as id
    from {schema}.events
    where topic = 'file.added' and payload->>'folder_id' <> '';
comment on view {schema}.file_of_folder_view is 'The files that folders have, or had.';

create view {schema}.passage_event_view as
    select payload->>'archive_id' as archive_id, org, aggregate_id, version, topic, payload, about,
           occurred_at, commit_order, position,
           xid < pg_snapshot_xmin(pg_current_snapshot()) as settled
    from {schema}.events
    where topic in ('passage.created', 'passage.embedded', 'passage.deleted')
      and payload->>'archive_id' <> '';
comment on view {schema}.passage_event_view is 'What became of the passages of archives.';

grant select on {schema}.archive_of_agent_view, {schema}.folder_of_agent_view,
    {schema}.file_of_folder_view, {schema}.passage_event_view to heeler_reader;
