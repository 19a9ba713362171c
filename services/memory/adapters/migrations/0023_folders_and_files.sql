-- Folders and their files as clients read them, one row each; and the texts of files, which are too
-- large for events: rows that `file.parsed` names, written before it, and read by nobody until then.

create table {schema}.folders (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    name       text not null,
    doc        jsonb not null,
    metadata   json
);
create index folders_page on {schema}.folders (org collate "C", created_at, id collate "C");
create index folders_name on {schema}.folders (org collate "C", name collate "C");

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

create table {schema}.file_texts (
    text_id    text not null,
    number     int not null,
    org        text not null,
    file_id    text not null,
    first_line int not null,
    last_line  int not null,
    first_chunk int not null,
    chunks     int not null,
    text       text not null,
    written_at timestamptz not null default now(),
    primary key (text_id, number)
);
create index file_texts_line on {schema}.file_texts (text_id, last_line);
create index file_texts_chunk on {schema}.file_texts (text_id, first_chunk);
create index file_texts_written on {schema}.file_texts (written_at) where number = 0;
comment on table {schema}.file_texts is
    'Texts of files in segments that follow each other; a line is cut only where it is very long.';

create function {schema}.moment(at timestamptz) returns text language sql immutable as
    $$ select to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') $$;

create view {schema}.folder_view as
    select id, org, created_at, updated_at, name, doc, metadata,
           left(doc::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null')
               || ', "created_at": ' || to_json({schema}.moment(created_at))
               || ', "updated_at": ' || to_json({schema}.moment(updated_at)) || '}' as document
    from {schema}.folders;
comment on view {schema}.folder_view is 'Folders; document is the V1 folder as text.';
grant select on {schema}.folder_view to heeler_reader;

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
grant select on {schema}.file_view to heeler_reader;

create view {schema}.file_text_view as
    select f.id as file_id, f.org, f.folder_id, f.lines, f.chars,
           t.number, t.first_line, t.last_line, t.text
    from {schema}.files f join {schema}.file_texts t on t.text_id = f.text_id and t.org = f.org;
comment on view {schema}.file_text_view is
    'The texts of files in segments, in the order of number; lines count from 1.';
grant select on {schema}.file_text_view to heeler_reader;

create view {schema}.created_folder_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events where topic = 'folder.created';
grant select on {schema}.created_folder_view to heeler_reader;

create view {schema}.created_file_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events where topic = 'file.added';
grant select on {schema}.created_file_view to heeler_reader;
