-- The api: uploads, identities and what they are attached to, templates and what is made from them.
--
-- Indexes of lists have their organisation and their id under the collation "C", which only lists ask
-- for: before a table is analyzed, Postgres would otherwise take such an index for the key of a row
-- and read all that the organisation has.

-- Finds what contains a text.
create extension if not exists pg_trgm;

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
create index identities_project on {schema}.identities (project_id, created_at, id collate "C")
    where project_id is not null;
create index identities_type on {schema}.identities (identity_type, created_at, id collate "C");
create index identities_named_like on {schema}.identities using gin (name gin_trgm_ops);
call {schema}.keep_count_of('identities');

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

create index events_attachments on {schema}.events (about) where topic = 'attachment.made';

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
create index projects_owner on {schema}.projects (owner_id, created_at, id collate "C");
create index projects_tags on {schema}.projects using gin (tags);
create index projects_named_like on {schema}.projects using gin (name gin_trgm_ops);

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

-- Templates --------------------------------------------------------------------------------------

create table {schema}.templates (
    id             text primary key,
    org            text not null,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    project_id     text not null,
    name           text not null,
    description    text not null,
    latest_version int not null,
    migrating_to   int not null,
    content        json not null
);
create index templates_page on {schema}.templates (org collate "C", created_at, id collate "C");
create index templates_name on {schema}.templates (name, org);
create index templates_migrating on {schema}.templates (id) where migrating_to > 0;
comment on column {schema}.templates.content is 'The working version.';
comment on column {schema}.templates.migrating_to is
    'The last version that the agents of the template follow to, 0 for none.';

create table {schema}.template_versions (
    id          text primary key,
    template_id text not null,
    org         text not null,
    number      int not null,
    message     text not null,
    created_at  timestamptz not null,
    content     json not null
);
create unique index template_versions_number on {schema}.template_versions (template_id, number);

-- A template once for each saved version, and once with version 0 for its working version.
create view {schema}.template_view as
    select v.id, t.org, t.id as template_id, t.created_at, t.updated_at, t.project_id, t.name,
           t.description, t.latest_version, v.number as version, v.message,
           v.created_at as saved_at, v.content
    from {schema}.templates t join {schema}.template_versions v on v.template_id = t.id
    union all
    select t.id, t.org, t.id, t.created_at, t.updated_at, t.project_id, t.name, t.description,
           t.latest_version, 0, '', t.updated_at, t.content
    from {schema}.templates t;
comment on view {schema}.template_view is
    'Templates, a row for each saved version, and one of version 0 for the working version.';

create table {schema}.deployments (
    id             text primary key,
    org            text not null,
    created_at     timestamptz not null,
    template_id    text not null,
    version        int not null,
    follows_after  int not null,
    status         text not null,
    agent_ids      text[] not null,
    group_id       text,
    refused_code   text,
    refused_reason text
);
create index deployments_unfinished on {schema}.deployments (id)
    where status in ('started', 'undoing', 'migrating');
create index deployments_undone on {schema}.deployments (id) where status = 'undone';
create index deployments_agents on {schema}.deployments using gin (agent_ids);
create index deployments_template on {schema}.deployments (template_id, follows_after)
    where status = 'completed';
comment on column {schema}.deployments.follows_after is
    'The agents follow to versions of the template after this one that want it.';

create view {schema}.deployment_view as
    select id, org, created_at, template_id, version, status, agent_ids, group_id, refused_code,
           refused_reason
    from {schema}.deployments;
comment on view {schema}.deployment_view is 'The agents that were made from templates, by request.';

grant select on {schema}.template_view, {schema}.deployment_view to heeler_reader;

-- Imports ----------------------------------------------------------------------------------------

create table {schema}.imports (
    id           text primary key,
    org          text not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    completed_at timestamptz,
    status       text not null,
    source       jsonb not null,
    lines        bigint,
    events       bigint,
    lines_done   bigint not null,
    events_done  bigint not null,
    agent_ids    text[] not null,
    errors       jsonb not null,
    left_out     jsonb not null,
    is_conflict  boolean not null,
    reason       text
);
create index imports_page on {schema}.imports (org collate "C", created_at, id collate "C");
create index imports_status on {schema}.imports (status, created_at, id collate "C");
create index imports_agents on {schema}.imports using gin (agent_ids);
create index imports_open on {schema}.imports (created_at) where completed_at is null;
comment on table {schema}.imports is
    'Agents that are made from files, or from other agents; completed_at is null as long as there is
something left to be done, or to be taken back.';

create view {schema}.import_view as
    select id, org, created_at, updated_at, completed_at, status, source, lines, events, lines_done,
           events_done, agent_ids, errors, left_out, is_conflict, reason
    from {schema}.imports;

create view {schema}.created_import_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'import.requested';
comment on view {schema}.created_import_view is 'Imports that were ever requested.';

grant select on {schema}.import_view, {schema}.created_import_view to heeler_reader;

-- Restores ---------------------------------------------------------------------------------------

create table {schema}.restores (
    id           text primary key,
    org          text not null,
    restores_id  text not null,
    agent_id     text not null,
    created_at   timestamptz not null,
    completed_at timestamptz,
    status       text not null,
    code         text,
    reason       text
);
create index restores_of_agent on {schema}.restores (restores_id);
create index restores_open on {schema}.restores (created_at) where completed_at is null;
comment on table {schema}.restores is
    'Agents that get back what they had; restores_id is the aggregate of all restores of an agent.';

create view {schema}.restore_view as
    select id, org, agent_id, created_at, completed_at, status, code, reason from {schema}.restores;
grant select on {schema}.restore_view to heeler_reader;

-- Configurations ---------------------------------------------------------------------------------

create table {schema}.configurations (
    id       text primary key,
    org      text not null,
    agent_id text not null,
    applied  json,
    rejected json
);
create index configurations_agent on {schema}.configurations (agent_id);
comment on table {schema}.configurations is
    'The files that describe agents: the last one that was applied, and one that was rejected since.';

create view {schema}.configuration_view as
    select id, org, agent_id, applied, rejected from {schema}.configurations;
grant select on {schema}.configuration_view to heeler_reader;

-- Fleets -----------------------------------------------------------------------------------------

create table {schema}.fleets (
    id         text primary key,
    org        text not null,
    key        text not null,
    name       text not null,
    origin     text not null,
    created_at timestamptz not null,
    applying   text,
    newest_apply text not null
);
create index fleets_page on {schema}.fleets (org collate "C", created_at, id collate "C");
create index fleets_open on {schema}.fleets (id) where applying is not null;
comment on table {schema}.fleets is
    'Agents that files describe together; applying is the apply that is under way.';

create table {schema}.fleet_members (
    id         text primary key,
    org        text not null,
    fleet_id   text not null,
    kind       text not null,
    key        text not null,
    thing_id   text not null,
    name       text not null,
    applied    json not null,
    applied_at timestamptz not null
);
create index fleet_members_of on {schema}.fleet_members (fleet_id, id collate "C");
create index fleet_members_thing on {schema}.fleet_members (thing_id);
comment on table {schema}.fleet_members is
    'What a fleet owns, by the key that its files know it by, and what they said of it.';

create table {schema}.fleet_applies (
    id           text primary key,
    org          text not null,
    fleet_id     text not null,
    plan_id      text not null,
    by           text not null,
    undoes       text,
    units        int not null,
    status       text not null,
    counts       json not null,
    reason       text not null,
    created_at   timestamptz not null,
    completed_at timestamptz
);
create index fleet_applies_plan on {schema}.fleet_applies (plan_id);
create index fleet_applies_of on {schema}.fleet_applies (fleet_id, created_at, id collate "C");

create table {schema}.fleet_units (
    id       text primary key,
    org      text not null,
    fleet_id text not null,
    apply_id text not null,
    number   int not null,
    fields   json not null,
    ids      json not null
);
create index fleet_units_of on {schema}.fleet_units (apply_id, number);
create index fleet_units_fleet on {schema}.fleet_units (fleet_id);
comment on table {schema}.fleet_units is
    'What came of each unit of a plan that was applied; ids are those of what it made.';

-- Plans have secrets in them, and so are sealed. They are no truth: who lost one plans again.
create table {schema}.fleet_plans (
    id         text primary key,
    org        text not null,
    fleet_id   text not null,
    shown      json not null,
    sealed     text not null,
    size       int not null,
    created_at timestamptz not null default now(),
    kept_until timestamptz not null
);
create index fleet_plans_kept on {schema}.fleet_plans (kept_until);
create index fleet_plans_of_fleet on {schema}.fleet_plans (org collate "C", fleet_id);
alter table {schema}.fleet_plans alter column sealed set storage external;

create view {schema}.fleet_view as
    select id, org, key, name, origin, created_at, applying from {schema}.fleets;
create view {schema}.created_fleet_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'fleet.created';
comment on view {schema}.created_fleet_view is 'Fleets that were ever made.';
create view {schema}.fleet_member_view as
    select id, org, fleet_id, kind, key, thing_id, name, applied, applied_at
    from {schema}.fleet_members;
create view {schema}.fleet_apply_view as
    select id, org, fleet_id, plan_id, by, undoes, units, status, counts, reason, created_at,
           completed_at
    from {schema}.fleet_applies;
create view {schema}.fleet_unit_view as
    select id, org, fleet_id, apply_id, number, fields, ids from {schema}.fleet_units;
grant select on {schema}.fleet_view, {schema}.created_fleet_view, {schema}.fleet_member_view,
    {schema}.fleet_apply_view, {schema}.fleet_unit_view to heeler_reader;
