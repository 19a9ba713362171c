"""What the engine knows of MCP servers: the words of the port that the adapters keep to."""

from services.tools.adapters.mcp.ports import (
    McpConnections,
    McpFailed,
    McpFailureKind,
    McpHealth,
    McpOutcome,
    McpPrompt,
    McpPromptArgument,
    McpPromptMessage,
    McpResource,
    McpResourceContent,
    McpServerConfig,
    McpTool,
    McpTransport,
)

__all__ = [
    "McpConnections",
    "McpFailed",
    "McpFailureKind",
    "McpHealth",
    "McpOutcome",
    "McpPrompt",
    "McpPromptArgument",
    "McpPromptMessage",
    "McpResource",
    "McpResourceContent",
    "McpServerConfig",
    "McpTool",
    "McpTransport",
]
