-- Which tools may be called in an organisation, in a project and by an agent: a row for each scope
-- that has a list; null is no limit. Every process keeps all rows in memory, so there are few.

create table {schema}.tool_permissions (
    id            text primary key,
    org           text not null,
    kind          text not null,
    scope_id      text not null,
    tools         text[],
    capabilities  text[],
    revision      bigint not null
);
create index tool_permissions_org on {schema}.tool_permissions (org collate "C");

create view {schema}.tool_permission_view as
    select id, org, kind, scope_id, tools, capabilities, revision
    from {schema}.tool_permissions;
comment on view {schema}.tool_permission_view is
    'Which tools may be called, by scope; revision differs whenever a row does.';
grant select on {schema}.tool_permission_view to heeler_reader;
