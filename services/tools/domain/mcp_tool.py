"""Tools from the definitions of an MCP server: whether one can be made, and which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.enums import ToolType
from libs.contracts.letta.request_size_limits import unreadable, walk
from libs.contracts.letta.tool_requests import SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX
from libs.contracts.letta.tools import ToolState
from libs.contracts.storable_text import UNSTORABLE
from services.tools.domain.json_schema_check import problem_of_keywords
from services.tools.domain.schema_from_source import NAME_CHARS_MAX

DESCRIPTION_CHARS_MAX = 16_384
REFERENCES_MAX = 200
REFERRING = ("$ref", "$dynamicRef", "$recursiveRef")
OFFERED_NAME_CHARS_MAX = 256
DIGEST_CHARS = 16
NAME_HASH_CHARS = 8
MCP = "mcp"  # the key in a tool's metadata, and how its tag begins
LOOP = "its schema refers to itself"


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool as its server describes it; `problem` says why it cannot be used, as far as it
    `is_checked`, or else why it could not even be read."""

    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=dict)
    problem: str = ""
    is_checked: bool = False

    @property
    def digest(self) -> str:
        """A digest of this definition."""
        said = to_json([self.description, sorted_keys(self.parameters)])
        return sha256(said).hexdigest()[:DIGEST_CHARS]


def sorted_keys(value: Json) -> Json:
    """The same JSON whatever the order of its keys was; at most as deep as schemas may be."""
    match value:
        case dict():
            return {key: sorted_keys(value[key]) for key in sorted(value)}
        case list():
            return [sorted_keys(item) for item in value]
    return value


def problem_of(tool: OfferedTool) -> str:
    """Why no tool can be made of it; empty if one can."""
    if tool.problem or tool.is_checked:
        return tool.problem
    if UNSTORABLE.search(tool.name + tool.description):
        return "its name or its description has a character that cannot be stored"
    if not tool.name or len(tool.name) > OFFERED_NAME_CHARS_MAX:
        return f"its name must have from 1 to {OFFERED_NAME_CHARS_MAX} characters"
    if len(tool.description) > DESCRIPTION_CHARS_MAX:
        return (
            f"its description has {len(tool.description)} characters, more than the"
            f" {DESCRIPTION_CHARS_MAX} that models are shown"
        )
    return problem_of_schema(tool.parameters)


def check_tools(tools: list[OfferedTool]) -> list[OfferedTool]:
    """The tools, each with why no tool can be made of it, if so."""
    return [replace(tool, problem=problem_of(tool), is_checked=True) for tool in tools]


def problem_of_schema(schema: JsonObject) -> str:
    """Why models cannot be shown a schema; empty if they can."""
    if (unreadable_part := unreadable(schema)) is not None:
        return f"its schema: {unreadable_part[1]}"
    if any(UNSTORABLE.search(text) for text in texts(schema)):
        return "its schema has a character that cannot be stored"
    if any(len(path) > SCHEMA_DEPTH_MAX for path, _ in walk(schema)):  # first: the rest recurs
        return f"its schema has more than {SCHEMA_DEPTH_MAX} levels"
    if (size := len(to_json(schema))) > SCHEMA_BYTES_MAX:
        return f"its schema has {size} bytes as JSON, more than {SCHEMA_BYTES_MAX}"
    if schema.get("type", "object") != "object":
        return f"its schema is of type {schema['type']!r}: arguments are an object"
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        return "`properties` of its schema is no object"
    if unfit := next((key for key, part in properties.items() if not isinstance(part, dict)), None):
        return f"`properties.{unfit}` of its schema is no object"
    return problem_of_keywords(schema) or problem_of_references(schema)


def texts(schema: Json) -> Iterator[str]:
    """All keys and texts of a schema."""
    for path, value in walk(schema):
        if path and isinstance(path[-1], str):
            yield path[-1]
        if isinstance(value, str):
            yield value


def problem_of_references(schema: JsonObject) -> str:
    """Why what a schema refers to cannot be found by reading on; empty if it can."""
    found = list(references(schema))
    if len(found) > REFERENCES_MAX:
        return f"its schema has {len(found)} references, more than {REFERENCES_MAX}"
    lost = next((reference for _, reference in found if target_of(schema, reference) is None), None)
    if lost is not None:
        return f"its schema refers to {lost[:100]!r}, which is not in it"
    places = {reference: place_of(reference) for _, reference in found}
    # What stands within what a reference points at is read with it.
    within = {
        reference: {other for path, other in found if path[: len(place)] == place}
        for reference, place in places.items()
    }
    return LOOP if has_loop(within) else ""


def has_loop(within: dict[str, set[str]]) -> bool:
    """Whether something leads to itself. What leads nowhere is taken away until that is all, or
    nothing is left to take."""
    left = {reference: set(others) for reference, others in within.items()}
    while ended := [reference for reference, others in left.items() if not others & left.keys()]:
        for reference in ended:
            del left[reference]
    return bool(left)


def references(schema: Json) -> Iterator[tuple[tuple[str, ...], str]]:
    """All that a schema refers to, and where it does."""
    for path, value in walk(schema):
        if path and path[-1] in REFERRING and isinstance(value, str):
            yield tuple(map(str, path[:-1])), value


def place_of(reference: str) -> tuple[str, ...]:
    """The steps of a pointer into a schema."""
    steps = reference[1:].split("/")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in steps if step)


def target_of(schema: JsonObject, reference: str) -> Json:
    """The target of a pointer into a schema; None if there is none."""
    if not reference.startswith("#"):
        return None
    found: Json = schema
    for step in place_of(reference):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def registry_names(server_name: str, tool_name: str) -> list[str]:
    """The names that a tool may have in the registry, where models know it by one: its own, and
    where that is taken, the same with its server's before it. What is too long for a provider is
    shortened."""
    return [fit_name(tool_name), fit_name(f"{server_name}_{tool_name}")]


def fit_name(name: str) -> str:
    """A name of the characters that providers take, and of as many; of one that is longer the
    beginning, and a hash of the whole."""
    fit = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    if len(fit) <= NAME_CHARS_MAX:
        return fit
    end = "_" + sha256(name.encode()).hexdigest()[:NAME_HASH_CHARS]
    return fit[: NAME_CHARS_MAX - len(end)] + end


def tool_of(
    offered: OfferedTool, *, tool_id: str, name: str, server_id: str, server_name: str
) -> ToolState:
    """The tool in the registry."""
    return ToolState(
        id=tool_id,
        tool_type=ToolType.external_mcp,
        name=name,
        description=offered.description,
        tags=[tag_of(server_name)],
        json_schema=json_schema(name, offered.description, offered.parameters),
        args_json_schema=None,
        metadata_={MCP: {"server_name": server_name, "server_id": server_id,
                         "tool_name": offered.name}},
    )  # fmt: skip


def json_schema(name: str, description: str, parameters: JsonObject) -> JsonObject:
    """The function schema that a model is shown."""
    whole: JsonObject = {"type": "object", "properties": {}, **parameters}
    whole.setdefault("required", [])
    return {"name": name, "description": description, "parameters": whole}


def tag_of(server_name: str) -> str:
    """The tag of the tools of a server."""
    return f"{MCP}:{server_name}"


def with_facts(tool: ToolState, **facts: Json) -> ToolState:
    """The tool with other facts about its server; what is empty is taken away."""
    metadata = dict(tool.metadata_ or {})
    about = metadata.get(MCP)
    known: JsonObject = {**(about if isinstance(about, dict) else {}), **facts}
    metadata[MCP] = {name: value for name, value in known.items() if value != ""}
    return tool.model_copy(update={"metadata_": metadata})


def with_note(tool: ToolState, note: str) -> ToolState:
    """The tool with what its readers have to know of its definition; empty takes that away."""
    return with_facts(tool, needs_approval=note)


def with_definition(tool: ToolState, offered: OfferedTool) -> ToolState:
    """The tool as its server defines it now."""
    schema = json_schema(tool.name, offered.description, offered.parameters)
    update = {"description": offered.description, "json_schema": schema}
    return with_note(tool.model_copy(update=update), "")


def with_name(tool: ToolState, name: str) -> ToolState:
    """The tool under another name of the registry."""
    schema = {**(tool.json_schema or {}), "name": name}
    return tool.model_copy(update={"name": name, "json_schema": schema})


def with_server_version(tool: ToolState, version: int) -> ToolState:
    """The tool of a server that was moved, by this change of it."""
    return with_facts(tool, server_version=version)


def with_server_name(tool: ToolState, before: str, after: str) -> ToolState:
    """The tool of a server that is called otherwise now."""
    tags = [tag_of(after) if tag == tag_of(before) else tag for tag in tool.tags]
    return with_facts(tool.model_copy(update={"tags": tags}), server_name=after)
