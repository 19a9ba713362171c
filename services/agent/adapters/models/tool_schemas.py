"""Function schemas as providers take them. They refuse a whole request over the schema of one tool,
so a tool that says too little, or says it otherwise, would cost its agent every answer."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pydantic_core import to_json

from libs.contracts.bus_messages import Json, JsonObject

# Under which keywords other schemas stand: by their names; one, or a list of them.
NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
DIRECT = (
    *("items", "prefixItems", "additionalProperties", "contains"),
    *("anyOf", "allOf", "oneOf", "not", "if", "then", "else"),
)
DEFINITIONS = ("$defs", "definitions")
# What no provider takes where the arguments are described, but only below.
ALTERNATIVES = ("oneOf", "anyOf")
NOT_AT_ROOT = (*ALTERNATIVES, "allOf", "not", "enum")
DEPTH_MAX = 64
# What is read to put the alternatives of one schema together, each part as often as it stands in
# another. Beyond it an argument with alternatives may be anything.
ALTERNATIVES_BYTES_MAX = 400_000
TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}
ANTHROPIC_ARGUMENT = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def openai_function(tool: JsonObject) -> JsonObject:
    """A function schema as OpenAI and what speaks like it take it."""
    parameters = tool.get("parameters")
    return {**tool, "parameters": arguments(parameters)} if isinstance(parameters, dict) else tool


def anthropic_arguments(parameters: JsonObject) -> JsonObject:
    """The schema of arguments as Anthropic takes it: without those whose names it does not take."""
    whole = arguments(parameters)
    properties, required = whole["properties"], whole.get("required")
    assert isinstance(properties, dict), "arguments have properties"
    unfit = {name for name in properties if not ANTHROPIC_ARGUMENT.fullmatch(name)}
    if not unfit:
        return whole
    whole["properties"] = {name: schema for name, schema in properties.items() if name not in unfit}
    if isinstance(required, list):
        whole["required"] = [name for name in required if name not in unfit]
    return whole


def arguments(parameters: JsonObject) -> JsonObject:
    """The schema of the arguments of a tool: of one object, whose alternatives are put together."""
    named = target(parameters, parameters)
    if named is not parameters:
        definitions = {key: parameters[key] for key in DEFINITIONS if key in parameters}
        named = {**named, **definitions}
    schema = Merging(named).merge(named, depth=0)
    properties = schema.get("properties")
    schema["type"], schema["properties"] = "object", {}
    if isinstance(properties, dict):
        schema["properties"] = properties
    return complete_object(schema, depth=0)


class Merging:
    """Puts the alternatives of schemas together. Each schema is read once, however many others
    refer to it, and to each other; what they grow to together has a bound."""

    def __init__(self, root: JsonObject) -> None:
        self.root = root
        self.bytes_left = ALTERNATIVES_BYTES_MAX
        self.known: dict[int, JsonObject] = {}
        self.under_way: set[int] = set()

    def merge(self, schema: JsonObject, *, depth: int) -> JsonObject:
        """The schema with the properties of its alternatives as its own. Each of them is allowed;
        those are required that every alternative requires."""
        place = id(schema)  # within the root, which stays
        if depth > DEPTH_MAX or place in self.under_way:
            return dict(schema)
        if not any(keyword in schema for keyword in NOT_AT_ROOT):
            return dict(schema)
        if place not in self.known:
            self.under_way.add(place)
            self.known[place] = self.merge_parts(schema, depth)
            self.under_way.discard(place)
        return self.known[place]

    def merge_parts(self, schema: JsonObject, depth: int) -> JsonObject:
        """The same of a schema that was not read yet."""
        whole = {key: value for key, value in schema.items() if key not in NOT_AT_ROOT}
        allowed = {name: [part] for name, part in properties_of(schema).items()}
        required = set(required_of(schema))
        for keyword in (*ALTERNATIVES, "allOf"):
            said = schema.get(keyword)
            branches = [
                self.merge(target(alternative, self.root), depth=depth + 1)
                for alternative in (said if isinstance(said, list) else [])
                if isinstance(alternative, dict)
            ]
            for branch in branches:
                for name, part in properties_of(branch).items():
                    allowed.setdefault(name, []).append(part)
            names = [set(required_of(branch)) for branch in branches]
            if names:
                required |= set.union(*names) if keyword == "allOf" else set.intersection(*names)
        whole["properties"] = {name: self.either(parts) for name, parts in allowed.items()}
        whole["required"] = [*sorted(required)]
        return whole

    def either(self, schemas: list[Json]) -> Json:
        """A schema of what any of these allows, each named once."""
        first, *others = {id(schema): schema for schema in schemas}.values()
        if not others:
            return first
        known = first["anyOf"] if isinstance(first, dict) and first.keys() == {"anyOf"} else [first]
        assert isinstance(known, list), "alternatives are a list"
        if self.bytes_left < 0:
            return {}
        written = [(to_json(schema), schema) for schema in (*known, *others)]
        self.bytes_left -= sum(len(text) for text, _ in written)
        if self.bytes_left < 0:
            return {}
        alternatives = [*dict(reversed(written)).values()][::-1]
        return {"anyOf": alternatives} if len(alternatives) > 1 else alternatives[0]


def target(schema: JsonObject, root: JsonObject) -> JsonObject:
    """The part of the root that a schema refers to, if it refers to any."""
    reference = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema
    found: Json = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else schema


def complete(schema: Json, *, depth: int) -> Json:
    """A schema with what providers miss in it, at every depth."""
    if depth > DEPTH_MAX:
        return schema
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    return complete_object(schema, depth=depth) if isinstance(schema, dict) else schema


def complete_object(schema: JsonObject, *, depth: int) -> JsonObject:
    """The same of a schema that is an object: each array says what is in it, each name that is
    required is one of a property, and a type that JSON does not have (older servers wrote `any`)
    is no type."""
    whole = without_unknown_types(schema)
    for keyword, said in schema.items():
        if keyword in NAMED and isinstance(said, dict):
            whole[keyword] = {name: complete(part, depth=depth + 1) for name, part in said.items()}
        elif keyword in DIRECT and isinstance(said, list):
            whole[keyword] = [complete(part, depth=depth + 1) for part in said]
        elif keyword in DIRECT and isinstance(said, dict):
            whole[keyword] = complete(said, depth=depth + 1)
    items = whole.get("items", whole.get("prefixItems"))
    if is_array(schema) and not isinstance(items, dict):
        whole["items"] = {"anyOf": items} if isinstance(items, list) and items else {}
    properties = whole.get("properties")
    if isinstance(properties, dict):
        missing = [name for name in required_of(schema) if name not in properties]
        if missing:
            whole["properties"] = {**properties, **{name: {} for name in missing}}
    return whole


def without_unknown_types(schema: JsonObject) -> JsonObject:
    """The schema with types of JSON alone; without a type where it has none of them."""
    said = schema.get("type")
    types = said if isinstance(said, list) else [said]
    known = [kind for kind in types if isinstance(kind, str) and kind in TYPES]
    if len(known) == len(types) or "type" not in schema:
        return dict(schema)
    rest = {key: value for key, value in schema.items() if key != "type"}
    return {"type": [*known], **rest} if known else rest


def is_array(schema: JsonObject) -> bool:
    """Whether a schema lets something be an array, and says so."""
    types = schema.get("type")
    return types == "array" or (isinstance(types, list) and "array" in types)


def properties_of(schema: JsonObject) -> JsonObject:
    """The properties of a schema; none where it has none."""
    properties = schema.get("properties")
    return dict(properties) if isinstance(properties, dict) else {}


def required_of(schema: JsonObject) -> Iterable[str]:
    """The names that a schema requires."""
    required = schema.get("required")
    return (
        [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    )
