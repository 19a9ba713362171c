-- Nobody reads it: which blocks an agent has stands in agent_view, where an index finds it.

drop view {schema}.agent_block_view;
