"""What a tool that comes with the server is made of."""

from dataclasses import dataclass, field

from libs.contracts.letta import JsonObject
from libs.contracts.letta.kinds import ToolType


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
    a parallel one may run beside others of the same step.
    """

    name: str
    tool_type: ToolType
    description: str
    arguments: tuple[Argument, ...] = ()
    idempotent: bool = False
    parallel: bool = False


INTEGER: JsonObject = {"type": "integer"}
BOOLEAN: JsonObject = {"type": "boolean"}
TEXTS: JsonObject = {"type": "array", "items": {"type": "string"}}


def one_of(*values: str) -> JsonObject:
    return {"type": "string", "enum": [*values]}


def optional(name: str, description: str, schema: JsonObject | None = None) -> Argument:
    return Argument(name, description, schema or _text(), required=False)
