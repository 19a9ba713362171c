"""The tools and skills of a request, beside those of the agent."""

from __future__ import annotations

from collections.abc import Iterable

from libs.contracts.approvals import ClientSkill, ClientTool
from libs.contracts.bus_messages import JsonObject
from libs.contracts.prompt_escaping import escaped, quoted
from services.agent.domain.active_run import ActiveRun
from services.agent.domain.agent import AgentDesign


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


def skills_note(skills: Iterable[ClientSkill]) -> str:
    """What a system prompt says about the client's skills, for one request; empty without any."""
    lines = [
        f'- name="{quoted(one.name)}" location="{quoted(one.location)}": {escaped(one.description)}'
        for one in skills
    ]
    if not lines:
        return ""
    listed = "\n".join(lines)
    return (
        "\n\n<available_skills>\nThe environment that you talk from has these skills:\n"
        f"{listed}\n</available_skills>"
    )
