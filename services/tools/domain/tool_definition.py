"""Definition of a tool by a client, made whole: name, description and schema fit each other."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import sha256

from libs.contracts.bus_messages import INVALID, UNPROCESSABLE, JsonObject, Rejected
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.tools import ToolState
from libs.contracts.state_size_limits import oversize_tool
from services.tools.domain.schema_from_source import (
    NAME_CHARS_MAX,
    Function,
    UnfitSource,
    documentation,
    function_of,
    required_of,
    schema_from_source,
)

HASH_CHARS = 12
SOURCES_REMEMBERED = 64
NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}")
PYTHON, TYPESCRIPT = "python", "typescript"
# What a schema is derived from, if none is given.
SCHEMA_FOLLOWS = {"source_code", "source_type", "args_json_schema"}
# What of a tool is not its users' to change, if it is that of an MCP server.
DEFINED_BY_SERVER = {
    "source_code", "source_type", "json_schema", "args_json_schema", "description",
    "pip_requirements", "npm_requirements",
}  # fmt: skip

SELF, AGENT_STATE = "self", "agent_state"


class UnfitTool(Exception):
    """A definition of which no tool can be made; the text names the field and the fix."""


def complete_tool(tool: ToolState, *, renames: bool = False) -> ToolState | Rejected:
    """The tool with all that follows from its source and its schema. A schema of another name than
    its function's is refused, unless it `renames` a tool that is there."""
    try:
        schema = checked_schema(tool)
        if not renames:
            check_function_name(tool, str(schema["name"]))
    except UnfitTool as unfit:
        return Rejected(code=INVALID, reason=str(unfit))
    name, description = str(schema["name"]), schema.get("description")
    whole = tool.model_copy(
        update={
            "name": name,
            "json_schema": schema,
            "description": tool.description
            or (description if isinstance(description, str) else None),
            "args_json_schema": {} if tool.args_json_schema is None else tool.args_json_schema,
            "metadata_": {**(tool.metadata_ or {}), **hash_field(tool.source_code)},
        }
    )
    large = oversize_tool(whole.model_dump(mode="json"))
    return Rejected(code=UNPROCESSABLE, reason=large) if large else whole


def with_changes(tool: ToolState, changes: JsonObject) -> ToolState | Rejected:
    """The tool after a change; its schema follows its source, unless the change brings one."""
    if tool.tool_type is ToolType.external_mcp:
        return with_own_changes(tool, changes)
    follows = SCHEMA_FOLLOWS & changes.keys() and changes.get("json_schema") is None
    fields = dict(changes)
    if follows:
        fields["json_schema"] = None
    if (follows or "json_schema" in changes) and changes.get("description") is None:
        fields["description"] = None
    if "source_code" in changes and tool.args_json_schema and "args_json_schema" not in changes:
        fields["args_json_schema"] = None
    return complete_tool(ToolState.model_validate({**tool.model_dump(), **fields}), renames=True)


def with_own_changes(tool: ToolState, changes: JsonObject) -> ToolState | Rejected:
    """The tool of an MCP server after a change of what is not the server's to say."""
    for name in DEFINED_BY_SERVER & changes.keys():
        if changes[name] != getattr(tool, name):
            reason = (
                f"`{name}`: '{tool.name}' is defined by its MCP server: change it there, and"
                " refresh the server's tools"
            )
            return Rejected(code=INVALID, reason=reason)
    changed = ToolState.model_validate({**tool.model_dump(), **changes})
    metadata = {**(changed.metadata_ or {}), "mcp": (tool.metadata_ or {}).get("mcp")}
    whole = changed.model_copy(update={"metadata_": metadata})
    large = oversize_tool(whole.model_dump(mode="json"))
    return Rejected(code=UNPROCESSABLE, reason=large) if large else whole


def checked_schema(tool: ToolState) -> JsonObject:
    """The schema of a tool: the given one, or what follows from its source. Raises UnfitTool."""
    if tool.source_type == TYPESCRIPT:
        if tool.json_schema is None:
            raise UnfitTool("`json_schema`: give the schema, it is not derived from TypeScript")
        return check_schema(tool.json_schema)
    if tool.source_type != PYTHON and tool.json_schema is not None and not is_python(tool):
        return check_schema(tool.json_schema)
    if not tool.source_code:
        raise UnfitTool("`source_code`: give the Python function that the tool is")
    try:
        return schema_of_python(tool, tool.source_code)
    except UnfitSource as unfit:
        raise UnfitTool(f"`source_code`: {unfit}") from None


def is_python(tool: ToolState) -> bool:
    """Whether the source of a tool is a function in Python, whatever its type is called: V1 takes
    any name for it, and often says `json`."""
    return tool.source_type != TYPESCRIPT and called_in(tool.source_code or "") is not None


def why_it_cannot_run(tool: ToolState) -> str:
    """Why nothing can run a tool of a type that is neither Python nor TypeScript; empty if it
    can."""
    if tool.source_type in (PYTHON, TYPESCRIPT) or is_python(tool):
        return ""
    return (
        f"'{tool.name}' cannot run: its `source_type` is '{tool.source_type}', and its"
        f" `source_code` is no function in Python: give it one, or code with the `source_type`"
        f" {TYPESCRIPT}"
    )


def schema_of_python(tool: ToolState, source: str) -> JsonObject:
    """The schema of a tool in Python. Raises UnfitTool and UnfitSource."""
    function = function_of(source)
    refuse_self(function)
    if tool.args_json_schema:
        refuse_unlike(function, tool.args_json_schema)
    if tool.json_schema is not None:
        return check_schema(tool.json_schema)
    if not tool.args_json_schema:
        return check_schema(schema_from_source(source))
    return check_schema(
        {
            "name": function.name,
            "description": tool.description or documentation(function).description,
            "parameters": {**tool.args_json_schema, "type": "object"},
        }
    )


def check_function_name(tool: ToolState, name: str) -> None:
    """Raise UnfitTool where a tool is not called as its function is."""
    function = function_name(tool.model_copy(update={"name": name}))
    if function != name:
        raise UnfitTool(
            f"`json_schema.name` is '{name}', but the last function in `source_code` is"
            f" '{function}': give both the same name"
        )


def function_name(tool: ToolState) -> str:
    """The function in a tool's source that its calls go to; a client may call the tool
    otherwise."""
    name = None if tool.source_type == TYPESCRIPT else called_in(tool.source_code or "")
    return name or tool.name or ""


@lru_cache(SOURCES_REMEMBERED)
def called_in(source: str) -> str | None:
    """The function of a source in Python; None where it has none. Calls of the same tool do not
    parse it again."""
    try:
        return function_of(source).name
    except UnfitSource:
        return None


def refuse_self(function: Function) -> None:
    """Tools of old tutorials are written as methods of the agent. Raises UnfitSource."""
    given = [*function.args.posonlyargs, *function.args.args]
    if given and given[0].arg == SELF:
        raise UnfitSource(
            f"function `{function.name}` takes `self`, which no tool is given: leave it out. What"
            f' it needs of its agent it finds in a last argument `{AGENT_STATE}: "AgentState"`, for'
            f" example `{AGENT_STATE}.memory.get_block(label).value` and"
            f" `{AGENT_STATE}.memory.update_block_value(label, value)`"
        )


def refuse_unlike(function: Function, schema: JsonObject) -> None:
    """A function is called with what its schema describes: by name, or as one object. Raises
    UnfitTool."""
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise UnfitTool("`args_json_schema`: give an object schema, with `properties`")
    arguments = function.args
    accepted = [
        arg.arg for arg in (*arguments.args, *arguments.kwonlyargs) if arg.arg != AGENT_STATE
    ]
    if len(accepted) == 1 and accepted[0] not in properties:
        return
    unknown = [] if arguments.kwarg else [prop for prop in properties if prop not in accepted]
    missing = [name for name in required_of(function) if name not in properties]
    if unknown or missing:
        names = ", ".join(f"`{name}`" for name in (*unknown, *missing))
        raise UnfitTool(
            f"`args_json_schema`: {names}: the arguments of `{function.name}` and the properties"
            " of the schema are not the same: name them alike, or let the function take one"
            " argument, which is then the whole object"
        )


def takes_agent_state(source: str) -> bool:
    """Whether the function of a tool is given its agent, whoever fills in the other arguments."""
    try:
        given = function_of(source).args
    except UnfitSource:
        return False
    return any(argument.arg == AGENT_STATE for argument in (*given.args, *given.kwonlyargs))


def check_schema(schema: JsonObject) -> JsonObject:
    """The same schema, if a model can be shown it. Raises UnfitTool."""
    name, parameters = schema.get("name"), schema.get("parameters", {})
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UnfitTool(
            f"`json_schema.name`: give a name of letters of a to z, digits, _ and -, of at most"
            f" {NAME_CHARS_MAX} characters, not '{str(name)[:NAME_CHARS_MAX]}'"
        )
    if not isinstance(parameters, dict) or not isinstance(parameters.get("properties", {}), dict):
        raise UnfitTool(
            "`json_schema.parameters`: give an object schema, such as"
            ' {"type": "object", "properties": {...}, "required": [...]}'
        )
    return schema


def hash_field(source_code: str | None) -> JsonObject:
    """The field that is equal for tools with the same source; empty without source."""
    if source_code is None:
        return {}
    return {"tool_hash": sha256(source_code.encode()).hexdigest()[:HASH_CHARS]}
