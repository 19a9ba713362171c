-- Agents that are gone for good: by their event, so that an empty read model deletes nothing.

create view {schema}.deleted_agent_view as
    select aggregate_id as id, org, occurred_at as deleted_at
    from {schema}.events
    where topic = 'agent.deleted';
comment on view {schema}.deleted_agent_view is 'Agents that were deleted.';
grant select on {schema}.deleted_agent_view to heeler_reader;
