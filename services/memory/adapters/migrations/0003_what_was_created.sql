-- Everything that was ever created, also what is gone: a list goes on after a row that is no more.

create view {schema}.created_block_view as
    select aggregate_id as id, org, occurred_at as created_at
    from {schema}.events
    where topic = 'block.created';
comment on view {schema}.created_block_view is 'Blocks that were ever created.';
grant select on {schema}.created_block_view to heeler_reader;
