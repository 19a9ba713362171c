-- MCP servers as clients read them, with their secrets sealed, and how far the discovery of their tools
-- is. tools are the ids of its tools by the names that it gives them. due_at is when the next attempt is to be made; null when none is.

create table {schema}.mcp_servers (
    id          text primary key,
    org         text not null,
    created_at  timestamptz not null,
    name        text not null,
    declared    boolean not null,
    version     integer not null,
    document    json not null,
    discovery   jsonb not null,
    tools       json not null,
    due_at      timestamptz
);
create index mcp_servers_page on {schema}.mcp_servers (org collate "C", created_at, id collate "C");
create index mcp_servers_name on {schema}.mcp_servers (org collate "C", name collate "C");
create index mcp_servers_due on {schema}.mcp_servers (due_at) where due_at is not null;

create view {schema}.mcp_server_view as
    select id, org, created_at, name, discovery, tools,
           left(document::text, -1) || ', "discovery": ' || (discovery - 'number')::text || '}'
               as document
    from {schema}.mcp_servers;
comment on view {schema}.mcp_server_view is
    'MCP servers; document is the V1 server as text, its secrets sealed, discovery says how far that of its tools is.';
grant select on {schema}.mcp_server_view to heeler_reader;
