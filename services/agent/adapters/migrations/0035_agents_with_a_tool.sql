-- Who has a tool that was deleted is found by it.

create index agents_custom_tools on {schema}.agents using gin (custom_tool_ids);
