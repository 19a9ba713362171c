-- Which version of a tool a row is: an approval of a call holds for that one alone.

alter table {schema}.tools add column revision integer not null default 1;
update {schema}.tools t set revision = e.version
from (select aggregate_id, max(version) as version from {schema}.events
      where topic in ('tool.created', 'tool.changed') group by aggregate_id) e
where e.aggregate_id = t.id;

create or replace view {schema}.tool_view as
    select id, org, created_at, updated_at, name, tool_type, tags, doc,
           left(doc::text, -1)
               || ', "json_schema": ' || coalesce(json_schema::text, 'null')
               || ', "args_json_schema": ' || coalesce(args_json_schema::text, 'null')
               || ', "pip_requirements": ' || coalesce(pip_requirements::text, 'null')
               || ', "npm_requirements": ' || coalesce(npm_requirements::text, 'null')
               || ', "metadata_": ' || coalesce(metadata_::text, 'null') || '}'
               as document,
           revision
    from {schema}.tools;
