-- The api: uploads, identities and what they are attached to.
--
-- Indexes of lists have their organisation and their id under the collation "C", which only lists ask
-- for: before a table is analyzed, Postgres would otherwise take such an index for the key of a row
-- and read all that the organisation has.

-- Uploads: files that clients send, in parts, until the memory service has read them. An upload that
-- stays incomplete belongs to a client that hung up or to a process that died, and is deleted.

create table {schema}.uploads (
    file_id  text primary key,
    org      text not null,
    bytes    bigint not null default 0,
    complete boolean not null default false,
    seen_at  timestamptz not null default now()
);
create index uploads_seen on {schema}.uploads (seen_at);
create index uploads_of_org on {schema}.uploads (org collate "C");

create table {schema}.upload_parts (
    file_id text not null,
    number  int not null,
    org     text not null,
    data    bytea not null,
    primary key (file_id, number)
);
-- Most of what is uploaded is compressed already.
alter table {schema}.upload_parts alter column data set storage external;

-- Uploads may contain anything: only the memory service reads them.
create view {schema}.upload_part_view as
    select file_id, number, org, data from {schema}.upload_parts;
comment on view {schema}.upload_part_view is 'The bytes of files that are not parsed yet.';
grant select on {schema}.upload_part_view to heeler_memory;

-- Identities -------------------------------------------------------------------------------------

create table {schema}.identities (
    id             text primary key,
    org            text not null,
    created_at     timestamptz not null,
    identifier_key text not null,
    name           text not null,
    identity_type  text not null,
    project_id     text,
    properties     json not null
);
create index identities_page on {schema}.identities (org collate "C", created_at, id collate "C");
create index identities_key on {schema}.identities (identifier_key);

create view {schema}.identity_view as
    select id, org, created_at, identifier_key, name, identity_type, project_id, properties
    from {schema}.identities;
comment on view {schema}.identity_view is 'Identities.';

create view {schema}.created_identity_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'identity.created';
comment on view {schema}.created_identity_view is 'Identities that were ever created.';

-- What is attached to what: the owner is an identity or a project, the target an agent or a block.
create table {schema}.attachments (
    id         text primary key,
    org        text not null,
    owner_id   text not null,
    target_id  text not null,
    created_at timestamptz not null
);
create index attachments_owner on {schema}.attachments (owner_id, target_id);
create index attachments_target on {schema}.attachments (target_id, created_at, owner_id);

-- Nobody removes the attachments of a deleted identity: they show no more.
create view {schema}.identity_attachment_view as
    select a.org, a.owner_id as identity_id, a.target_id, a.created_at, i.identifier_key
    from {schema}.attachments a join {schema}.identities i on i.id = a.owner_id and i.org = a.org;
comment on view {schema}.identity_attachment_view is
    'The agents and blocks that identities are attached to, those of them too that were deleted.';

grant select on {schema}.identity_view, {schema}.created_identity_view,
    {schema}.identity_attachment_view to heeler_reader;

-- Projects ---------------------------------------------------------------------------------------

create table {schema}.projects (
    id                 text primary key,
    org                text not null,
    created_at         timestamptz not null,
    updated_at         timestamptz not null,
    name               text not null,
    description        text,
    tags               text[] not null,
    owner_id           text,
    created_by_id      text,
    last_updated_by_id text
);
create index projects_page on {schema}.projects (org collate "C", created_at, id collate "C");

create view {schema}.project_view as
    select id, org, created_at, updated_at, name, description, tags, owner_id, created_by_id,
           last_updated_by_id
    from {schema}.projects;
comment on view {schema}.project_view is 'Projects.';

create view {schema}.created_project_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'project.created';
comment on view {schema}.created_project_view is 'Projects that were ever created.';

create view {schema}.project_agent_view as
    select a.org, a.owner_id as project_id, a.target_id, a.created_at
    from {schema}.attachments a join {schema}.projects p on p.id = a.owner_id and p.org = a.org;
comment on view {schema}.project_agent_view is
    'The agents that were put into projects, deleted ones too. An agent may also name its project.';

-- Deleted projects that agents or blocks may still name. agent_ids are those that go with it.
create table {schema}.project_removals (
    id         text primary key,
    org        text not null,
    deleted_at timestamptz not null,
    agent_ids  text[] not null
);

grant select on {schema}.project_view, {schema}.created_project_view, {schema}.project_agent_view
    to heeler_reader;
