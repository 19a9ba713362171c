-- Calls are listed and counted, of an organisation and of an agent.

create index tool_runs_page on {schema}.tool_runs (org collate "C", created_at, id collate "C");
create index tool_runs_agent on {schema}.tool_runs (agent_id, created_at, id collate "C");
