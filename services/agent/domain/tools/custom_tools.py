"""Tools that clients made: the tools service has them, agents hold them by id."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType
from libs.contracts.tools.base_tools.catalogue import CATALOGUE
from libs.contracts.tools.base_tools.definition import TOOL_RETURN_CHARS_MAX, BaseTool, Owner


class CustomTool(BaseModel):
    """A tool of a client, as it was when it was read. What it does is not known: a call is never
    made a second time."""

    model_config = ConfigDict(frozen=True)

    id: str
    revision: int = 0
    name: str
    tool_type: str = ToolType.custom.value
    description: str = ""
    parameters: JsonObject = {}
    parallel: bool = False
    needs_approval: bool | None = None
    return_chars_max: int = TOOL_RETURN_CHARS_MAX

    @property
    def owner(self) -> Owner:
        """The service that carries its calls out."""
        return "tools"

    @property
    def idempotent(self) -> bool:
        """Whether a call may be made again after a crash."""
        return False

    @property
    def deadline_seconds(self) -> float | None:
        """The seconds that a call may take, if less than the server's limit for any."""
        return None

    @property
    def json_schema(self) -> JsonObject:
        """The function schema that a model is shown."""
        return function_schema(self.name, self.description, self.parameters)


def function_schema(name: str, description: str, parameters: JsonObject) -> JsonObject:
    """The function schema of a client's tool; its arguments are an object, whatever the client
    said."""
    properties, required = (parameters.get(key) for key in ("properties", "required"))
    whole: JsonObject = {
        **parameters,
        "type": "object",
        "properties": properties if isinstance(properties, dict) else {},
        "required": required if isinstance(required, list) else [],
    }
    return {"name": name, "description": description, "parameters": whole}


type HeldTool = BaseTool | CustomTool


def custom_ids(tool_ids: Iterable[str]) -> list[str]:
    """Those of these ids that are not of tools which come with the server."""
    return [tool_id for tool_id in tool_ids if tool_id not in CATALOGUE]


def held_tools(tool_ids: Iterable[str], custom: Iterable[CustomTool]) -> list[HeldTool]:
    """The tools of these ids, in their order, without those that are gone. Models know tools by
    their names: where two have come to have one, it is that of the tool that comes with the server,
    else that of the first, until it is renamed or detached."""
    made = {tool.id: tool for tool in custom}
    found = (made.get(tool_id) or CATALOGUE.get(tool_id) for tool_id in tool_ids)
    named: dict[str, HeldTool] = {}
    for tool in found:
        if tool is not None and (tool.id in CATALOGUE or tool.name not in named):
            named[tool.name] = tool
    return list(named.values())


# Longer ones are cut when a model's answer is read, and are no JSON any more.
TOOL_ARGUMENTS_CHARS_MAX = 600_000


def tools_of(tool_ids: Iterable[str]) -> list[BaseTool]:
    """The tools of these ids, without those that the catalogue does not have: a newer server may
    have known them."""
    return [CATALOGUE[tool_id] for tool_id in tool_ids if tool_id in CATALOGUE]
