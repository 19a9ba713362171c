-- Which folders an agent sees, and which of their files are open, with the lines that are shown.

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

create view {schema}.agent_folder_view as
    select agent_id, folder_id, org, created_at from {schema}.agent_folders;
comment on view {schema}.agent_folder_view is 'Which agents see which folders.';
grant select on {schema}.agent_folder_view to heeler_reader;

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
    'Files that agents see the names of; is_open are those whose lines they see.';
grant select on {schema}.agent_file_view to heeler_reader;
