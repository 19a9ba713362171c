"""What servers say, in the words of the port."""

from __future__ import annotations

import mcp_types
from pydantic_core import to_json

from services.tools.adapters.mcp.ports import (
    McpOutcome,
    McpPrompt,
    McpPromptArgument,
    McpPromptMessage,
    McpResource,
    McpResourceContent,
    McpTool,
)


def tool(one: mcp_types.Tool) -> McpTool:
    """A tool of a list."""
    annotations = one.annotations
    return McpTool(
        name=one.name,
        description=one.description or "",
        input_schema=one.input_schema,
        output_schema=one.output_schema,
        annotations=annotations.model_dump(by_alias=True, exclude_none=True, mode="json")
        if annotations
        else {},
    )


def outcome(result: mcp_types.CallToolResult) -> McpOutcome:
    """What a call came to."""
    text = "\n".join(filter(None, map(shown, result.content)))
    structured = result.structured_content
    if not text and structured is not None:
        text = to_json(structured, inf_nan_mode="null").decode()
    return McpOutcome(
        status="error" if result.is_error else "success", text=text, structured=structured
    )


def shown(content: mcp_types.ContentBlock) -> str:
    """A part of an answer as a model reads it; what is no text is said in words."""
    match content:
        case mcp_types.TextContent():
            return content.text
        case mcp_types.ImageContent() | mcp_types.AudioContent():
            kind = "image" if isinstance(content, mcp_types.ImageContent) else "audio"
            return f"[{kind} of type {content.mime_type}, {len(content.data) * 3 // 4} bytes]"
        case mcp_types.ResourceLink():
            return f"[resource {content.name}: {content.uri}]"
        case mcp_types.EmbeddedResource(resource=mcp_types.TextResourceContents() as resource):
            return resource.text
        case mcp_types.EmbeddedResource(resource=resource):
            return f"[resource of type {resource.mime_type or 'unknown'}: {resource.uri}]"
    return "[something that cannot be shown]"


def resource(one: mcp_types.Resource) -> McpResource:
    """A resource of a list."""
    return McpResource(
        uri=str(one.uri),
        name=one.name,
        description=one.description or "",
        mime_type=one.mime_type or "",
    )


def resource_content(
    one: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> McpResourceContent:
    """A part of a resource."""
    return McpResourceContent(
        uri=str(one.uri),
        mime_type=one.mime_type or "",
        text=one.text if isinstance(one, mcp_types.TextResourceContents) else None,
        blob=one.blob if isinstance(one, mcp_types.BlobResourceContents) else None,
    )


def prompt(one: mcp_types.Prompt) -> McpPrompt:
    """A prompt of a list."""
    return McpPrompt(
        name=one.name,
        description=one.description or "",
        arguments=tuple(
            McpPromptArgument(
                name=argument.name,
                description=argument.description or "",
                required=bool(argument.required),
            )
            for argument in one.arguments or []
        ),
    )


def prompt_message(one: mcp_types.PromptMessage) -> McpPromptMessage:
    """A message of a prompt."""
    return McpPromptMessage(role=one.role, text=shown(one.content))
