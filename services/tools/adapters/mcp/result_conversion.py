"""Results of servers, in the words of the port."""

from __future__ import annotations

import mcp_types
from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from services.tools.adapters.mcp.message_repair import AS_LISTED
from services.tools.adapters.mcp.ports import McpOutcome, McpTool


def tool(listed: mcp_types.Tool) -> McpTool:
    """A tool of a list."""
    if listed.meta and AS_LISTED in listed.meta:
        return tool_as_listed(listed.name, listed.meta[AS_LISTED])
    annotations = listed.annotations
    return McpTool(
        name=listed.name,
        description=listed.description or "",
        input_schema=of_object(listed.input_schema),
        output_schema=listed.output_schema,
        annotations=annotations.model_dump(by_alias=True, exclude_none=True, mode="json")
        if annotations
        else {},
    )


def tool_as_listed(name: str, listed: Json) -> McpTool:
    """A tool that is not as the protocol has it, as far as it can be understood."""
    if not isinstance(listed, dict):
        return McpTool(name=name, problem="it is no object")
    if not isinstance(listed.get("name"), str):
        return McpTool(name=name, problem="its name is no text")
    schema, description = listed.get("inputSchema"), listed.get("description")
    if not isinstance(schema, dict | None):
        return McpTool(name=name, problem="its `inputSchema` is no object")
    if not isinstance(description, str | None):
        return McpTool(name=name, problem="its description is no text")
    return McpTool(name=name, description=description or "", input_schema=of_object(schema or {}))


def of_object(schema: JsonObject) -> JsonObject:
    """The schema without what is null, and of an object where it lets that be."""
    given: JsonObject = {key: value for key, value in schema.items() if value is not None}
    types = given.get("type", "object")
    if isinstance(types, list) and "object" in types:
        given["type"] = "object"
    return given


def outcome(result: mcp_types.CallToolResult) -> McpOutcome:
    """The outcome of a call."""
    text = "\n".join(filter(None, map(text_of, result.content)))
    structured = result.structured_content
    if not text and structured is not None:
        text = to_json(structured, inf_nan_mode="null").decode()
    return McpOutcome(
        status="error" if result.is_error else "success", text=text, structured=structured
    )


def text_of(content: mcp_types.ContentBlock) -> str:
    """A part of an answer as the text that a model reads; other content is described in words."""
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


def resource(listed: mcp_types.Resource) -> JsonObject:
    """A resource of a list."""
    return {
        "uri": str(listed.uri),
        "name": listed.name,
        "description": listed.description or "",
        "mime_type": listed.mime_type or "",
    }


def resource_content(
    content: mcp_types.TextResourceContents | mcp_types.BlobResourceContents,
) -> JsonObject:
    """A part of a resource: text, or bytes in base64."""
    return {
        "uri": str(content.uri),
        "mime_type": content.mime_type or "",
        "text": content.text if isinstance(content, mcp_types.TextResourceContents) else None,
        "blob": content.blob if isinstance(content, mcp_types.BlobResourceContents) else None,
    }


def prompt(listed: mcp_types.Prompt) -> JsonObject:
    """A prompt of a list."""
    arguments: list[Json] = [
        {
            "name": argument.name,
            "description": argument.description or "",
            "required": bool(argument.required),
        }
        for argument in listed.arguments or []
    ]
    description = listed.description or ""
    return {"name": listed.name, "description": description, "arguments": arguments}


def prompt_message(message: mcp_types.PromptMessage) -> JsonObject:
    """A message of a prompt; content that is not text is said in words."""
    return {"role": message.role, "text": text_of(message.content)}
