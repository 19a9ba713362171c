"""Definition of a tool that comes with the server."""

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import ClassVar, Literal

from pydantic import JsonValue

from libs.contracts.deterministic_ids import uuid_shaped
from libs.contracts.letta import JsonObject
from libs.contracts.letta.enums import ToolType

TOOL_RETURN_CHARS_MAX = 50_000

# The service that carries a tool's calls out.
Owner = Literal["agent", "memory", "tools"]

_ID_NAMESPACE = "heeler.base-tool/"


def _text() -> JsonObject:
    return {"type": "string"}


@dataclass(frozen=True)
class Argument:
    """One argument of a tool; without a schema it is text."""

    name: str
    description: str
    schema: JsonObject = field(default_factory=_text)
    required: bool = True


@dataclass(frozen=True, kw_only=True)
class BaseTool:
    """A tool that comes with the server.

    An idempotent one may be run again after a crash without doing more than once would;
    a parallel one may run beside others of the same step. A call fails after `deadline_seconds`,
    and after what the server lets any call take. `needs_approval` is what clients read; None:
    nobody has said.
    """

    revision: ClassVar[int] = 0  # it changes with the server alone
    name: str
    owner: Owner
    tool_type: ToolType
    description: str
    arguments: tuple[Argument, ...] = ()
    idempotent: bool = False
    parallel: bool = False
    needs_approval: bool | None = None
    deadline_seconds: float | None = None
    return_chars_max: int = TOOL_RETURN_CHARS_MAX

    @cached_property
    def id(self) -> str:
        """Its id, the same on every server and shaped like a random one."""
        return tool_id(self.name)

    @cached_property
    def json_schema(self) -> JsonObject:
        """The function schema that a model is shown."""
        properties: JsonObject = {
            argument.name: {**argument.schema, "description": argument.description}
            for argument in self.arguments
        }
        required: list[JsonValue] = [a.name for a in self.arguments if a.required]
        return {
            "name": self.name,
            "description": self.description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        }


def tool_id(name: str) -> str:
    """The id of the base tool of this name."""
    return f"tool-{uuid_shaped(sha256((_ID_NAMESPACE + name).encode()).digest())}"


def tool_ids_of(names: list[str], ids: list[str]) -> list[str]:
    """The ids of an agent's tools. What was recorded before tools had ids has their names alone,
    and all of them are base tools."""
    return ids or [tool_id(name) for name in names]


INTEGER: JsonObject = {"type": "integer"}
BOOLEAN: JsonObject = {"type": "boolean"}
TEXTS: JsonObject = {"type": "array", "items": {"type": "string"}}


def one_of(*values: str) -> JsonObject:
    return {"type": "string", "enum": [*values]}


def optional(name: str, description: str, schema: JsonObject | None = None) -> Argument:
    return Argument(name, description, schema or _text(), required=False)
