"""Whether JSON is a schema, as far as providers look: they refuse every request that brings a tool
with a schema that is none, and so its agent could say nothing any more."""

from __future__ import annotations

from collections.abc import Iterator

from libs.contracts.bus_messages import Json, JsonObject

TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
# Under which keywords other schemas stand: by their names; one, or a list of them.
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
DIRECT = frozenset(
    {
        *("items", "prefixItems", "additionalProperties", "propertyNames", "contains"),
        *("anyOf", "allOf", "oneOf", "not", "if", "then", "else"),
    }
)


def problem_of_keywords(schema: JsonObject) -> str:
    """The reason why it is no schema, with the place; empty if it is one. Bounded in depth."""
    for place, part in parts(schema, ""):
        where = f"`{place}` of its schema" if place else "its schema"
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            return f"{where} is no schema"
        if not is_type(part.get("type", "object")):
            return f"{where} has the type {str(part['type'])[:50]!r}, which JSON Schema has not"
        required = part.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            return f"`required` of {where} is no list of names"
    return ""


def is_type(said: Json) -> bool:
    """Whether `type` may be this."""
    several = said if isinstance(said, list) else [said]
    return bool(several) and all(isinstance(kind, str) and kind in TYPES for kind in several)


def parts(schema: Json, place: str) -> Iterator[tuple[str, Json]]:
    """A schema and all those within it, with the places where they stand."""
    yield place, schema
    if not isinstance(schema, dict):
        return
    for keyword, said in schema.items():
        inner = f"{place}.{keyword}" if place else keyword
        if keyword in NAMED and isinstance(said, dict):
            for name, subschema in said.items():
                yield from parts(subschema, f"{inner}.{name}")
        elif keyword in DIRECT:
            for subschema in said if isinstance(said, list) else [said]:
                yield from parts(subschema, inner)
