-- Tools that clients made, as they read them, one row each. What is the client's own JSON is kept as
-- it came, in the order of its keys: jsonb would sort them, and models read schemas in order.

create table {schema}.tools (
    id                text primary key,
    org               text not null,
    created_at        timestamptz not null,
    updated_at        timestamptz not null,
    name              text not null,
    tool_type         text not null,
    tags              text[] not null,
    doc               jsonb not null,
    json_schema       json,
    args_json_schema  json,
    pip_requirements  json,
    npm_requirements  json,
    metadata_         json
);
create index tools_page on {schema}.tools (org collate "C", created_at, id collate "C");
create index tools_name on {schema}.tools (org collate "C", name collate "C");
comment on column {schema}.tools.doc is 'The V1 tool without what is the client''s own JSON.';

create view {schema}.tool_view as
    select id, org, created_at, updated_at, name, tool_type, tags, doc,
           left(doc::text, -1)
               || ', "json_schema": ' || coalesce(json_schema::text, 'null')
               || ', "args_json_schema": ' || coalesce(args_json_schema::text, 'null')
               || ', "pip_requirements": ' || coalesce(pip_requirements::text, 'null')
               || ', "npm_requirements": ' || coalesce(npm_requirements::text, 'null')
               || ', "metadata_": ' || coalesce(metadata_::text, 'null') || '}'
               as document
    from {schema}.tools;
comment on view {schema}.tool_view is
    'Tools that clients made; document is the V1 tool as text, doc what is searched by.';
grant select on {schema}.tool_view to heeler_reader;

-- Everything that was ever created, also what is gone: a list goes on after a row that is no more.
create view {schema}.created_tool_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'tool.created';
comment on view {schema}.created_tool_view is 'Tools that were ever created.';
grant select on {schema}.created_tool_view to heeler_reader;
