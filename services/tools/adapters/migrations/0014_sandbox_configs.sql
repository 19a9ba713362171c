-- The settings of the sandbox of an organisation, and its environment variables, with their values
-- sealed.

create table {schema}.sandbox_configs (
    id          text primary key,
    org         text not null,
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    type        text not null,
    config      json not null,
    generation  integer not null
);
create index sandbox_configs_page on {schema}.sandbox_configs (org collate "C", created_at, id collate "C");

create table {schema}.sandbox_variables (
    id          text primary key,
    org         text not null,
    config_id   text not null,
    created_at  timestamptz not null,
    updated_at  timestamptz not null,
    key         text not null,
    value       text not null,
    description text
);
create index sandbox_variables_page on {schema}.sandbox_variables (config_id, created_at, id collate "C");

create view {schema}.sandbox_config_view as
    select id, org, created_at, updated_at, type, config from {schema}.sandbox_configs;
comment on view {schema}.sandbox_config_view is 'Settings of sandboxes, as clients make them.';
grant select on {schema}.sandbox_config_view to heeler_reader;

create view {schema}.sandbox_variable_view as
    select id, org, config_id, created_at, updated_at, key, value, description
    from {schema}.sandbox_variables;
comment on view {schema}.sandbox_variable_view is
    'Environment variables of sandboxes; the values are sealed.';
grant select on {schema}.sandbox_variable_view to heeler_reader;
