"""Sessions with MCP servers, by the official SDK, which is imported when the first is asked."""
