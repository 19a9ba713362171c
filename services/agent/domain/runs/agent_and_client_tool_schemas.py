"""The function schemas that a model is offered: the agent's tools and those of the client."""

from __future__ import annotations

from libs.contracts.agent.approvals import ClientTool
from libs.contracts.bus_messages import JsonObject
from services.agent.domain.agents.agent import AgentDesign
from services.agent.domain.conversations.active_run import ActiveRun


def schemas_of(design: AgentDesign, run: ActiveRun) -> dict[str, JsonObject]:
    """The function schemas that a model can be offered, by name: the tools that the agent has and
    may call, and those of the client, which take their place where they have the same name."""
    held = (tool for tool in design.held if tool.name not in design.forbidden)
    schemas = {tool.name: tool.json_schema for tool in held}
    theirs = run.gate.client_tools if run.gate else []
    return {**schemas, **{tool.name: client_schema(tool) for tool in theirs}}


def client_schema(tool: ClientTool) -> JsonObject:
    """The function schema of a client's tool; its arguments are an object, whatever it says."""
    properties, required = (tool.parameters.get(key) for key in ("properties", "required"))
    parameters: JsonObject = {
        **tool.parameters,
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
        "required": required if isinstance(required, list) else [],
    }
    return {"name": tool.name, "description": tool.description, "parameters": parameters}
