-- Archives as clients read them, which agents search which of them, and those that are deleted and
-- still have passages to be removed.

create table {schema}.archives (
    id         text primary key,
    org        text not null,
    created_at timestamptz not null,
    version    int not null,
    name       text not null,
    doc        jsonb not null,
    metadata   json
);
comment on column {schema}.archives.doc is 'The V1 archive without its metadata.';
create index archives_page on {schema}.archives (org collate "C", created_at, id collate "C");

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

create view {schema}.archive_view as
    select id, org, created_at, version, name, doc,
           left(doc::text, -1) || ', "metadata": ' || coalesce(metadata::text, 'null') || '}'
               as document
    from {schema}.archives;
comment on view {schema}.archive_view is 'Archives; document is the V1 archive as text.';

create view {schema}.archive_agent_view as
    select archive_id, agent_id, org, attached_at from {schema}.archive_agents;
comment on view {schema}.archive_agent_view is 'Which agents search which archives.';

create view {schema}.created_archive_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'archive.created';
comment on view {schema}.created_archive_view is 'Archives that were ever created.';

grant select on {schema}.archive_view, {schema}.archive_agent_view, {schema}.created_archive_view
    to heeler_reader;
