-- Every version of every block, also of those that are gone: what was changed, when, by whom and why.

create view {schema}.block_version_view as
    select aggregate_id as id, org, version, occurred_at as created_at, topic,
           coalesce(payload->'block', payload->'changes', '{}')::jsonb as fields,
           nullif((payload->'cause')::jsonb, 'null') as cause,
           (payload->>'restored_version')::int as restored_version,
           metadata->>'actor' as actor
    from {schema}.events
    where topic in ('block.created', 'block.changed', 'block.deleted');
comment on view {schema}.block_version_view is
    'The versions of each block: fields has the new values alone, of the first version all.';
grant select on {schema}.block_version_view to heeler_reader;
