-- Whether an MCP server may ask the models of the agents that call its tools.

alter table {schema}.mcp_servers add column sampling boolean not null default false;

create or replace view {schema}.mcp_server_view as
    select id, org, created_at, name, discovery, tools,
           left(document::text, -1) || ', "sampling": ' || sampling::text
               || ', "discovery": ' || (discovery - 'number')::text || '}' as document
    from {schema}.mcp_servers;
