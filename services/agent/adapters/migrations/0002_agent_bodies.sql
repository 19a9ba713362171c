-- What is large in a V1 agent and served as it is becomes text: putting a binary document together
-- with its neighbours and printing it was half of what a list cost.

alter table {schema}.agents add column body text;
alter table {schema}.agents alter column body set storage external;

update {schema}.agents a set
    body = (
        select string_agg(to_json(f.key)::text || ': ' || f.value::text, ', ')
        from jsonb_each(a.doc) f
        where f.key <> 'message_ids' and f.key <> all (kept.names)
    ),
    doc = (
        select coalesce(jsonb_object_agg(f.key, f.value), '{}')
        from jsonb_each(a.doc) f
        where f.key = any (kept.names)
    )
from (values (array[
    'last_run_completion', 'last_run_duration_ms', 'last_stop_reason', 'memory', 'blocks', 'tools',
    'tags', 'description', 'project_id', 'template_id', 'base_template_id', 'created_by_id'
])) as kept (names);

alter table {schema}.agents alter column body set not null;
comment on column {schema}.agents.body is
    'Fields of the V1 agent that only its design changes, ready to serve: JSON without the braces.';
comment on column {schema}.agents.doc is
    'The other fields of the V1 agent: what is replaced in an answer, and what is searched by.';

create or replace view {schema}.agent_view as
    select id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, doc,
           body
    from {schema}.agents;
