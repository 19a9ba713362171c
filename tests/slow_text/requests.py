"""A request for each field of the OpenAPI document that takes a text, with that field full of a
text: parameters in paths and queries, headers, and fields of bodies however deep."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from services.api.app import HANDLERS
from services.api.openapi.document import components, described_routes, operation
from services.api.openapi.operation import documented_path
from tests.fuzz.corpus import BODIES
from tests.slow_text.fillings import filled, filled_json

type Schema = dict[str, Any]
type Place = tuple[str | int, ...]

# Of a field that says no greatest length.
UNBOUNDED_CHARS = 500_000
LENGTH_CHARS_MAX = 1_000_000
# A line of a request has at most 64 KiB.
PARAMETER_CHARS = 5_000
HEADER_CHARS = 8_000
DEPTH_MAX = 5
EXAMPLE = "123e4567-e89b-42d3-8456-426614174000"
ID_PATTERN = re.compile(r"\^([a-z_]+)-\[0-9a-f\]")
HEADERS = (
    *("idempotency-key", "x-request-id", "prefer", "range", "last-event-id", "if-none-match"),
    *("authorization", "x-bare-password", "content-type", "x-project", "cookie", "accept"),
    *(
        "x-stainless-retry-count",
        "traceparent",
        "x-heeler-passphrase",
        "x-override-embedding-model",
    ),
    *("user-agent", "origin", "accept-encoding", "forwarded", "host", "mcp-session-id"),
)


@dataclass(frozen=True, slots=True)
class Field:
    """A place in requests of one operation that takes a text of so many characters; `place` is the
    way to it in the body, or the name of a parameter or a header."""

    method: str
    path: str
    part: str
    place: Place
    chars: int
    body: Any = None
    is_json: bool = False

    def __str__(self) -> str:
        where = ".".join(map(str, self.place))
        return f"{self.method} {self.path} {self.part} {where} ({self.chars})"

    def request(self, filling: str) -> tuple[str, dict[str, str], bytes]:
        """The target, the headers and the body that are full of a text."""
        text = filled(filling, self.chars)
        name = str(self.place[-1]) if self.place else ""
        target = re.sub(r"\{(\w+)\}", lambda found: sample_id(found[1]), self.path)
        body = b"" if self.body is None else json.dumps(self.body).encode()
        match self.part:
            case "path":
                quoted = quote(text, safe="")[:PARAMETER_CHARS]
                with_text = self.path.replace(f"{{{name}}}", quoted)
                return re.sub(r"\{(\w+)\}", lambda found: sample_id(found[1]), with_text), {}, body
            case "query":
                return f"{target}?{name}={quote(text, safe='')}", {}, body
            case "header":
                return target, {name: text.encode().decode("latin-1").replace("\n", " ")}, body
            case "text":
                return target, {"content-type": "application/toml"}, text.encode()
        value = filled_json(filling, self.chars) if self.is_json else text
        return target, {}, json.dumps(put(self.body, self.place, value)).encode()


def put(value: Any, place: Place, text: Any) -> Any:
    """A body with something else at a place; what is missing on the way is made."""
    if not place:
        return text
    first, *rest = place
    if isinstance(first, int):
        item = value[0] if isinstance(value, list) and value else None
        return [put(item, tuple(rest), text)]
    known = value if isinstance(value, dict) else {}
    return {**known, first: put(known.get(first), tuple(rest), text)}


def sample_id(name: str) -> str:
    """An id for a parameter of a path."""
    return f"{name.removesuffix('_id')}-{EXAMPLE}" if name.endswith("_id") else "a"


class Document:
    """The schemas of the document, and the fields of its operations."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = components(HANDLERS)["schemas"]

    def fields(self) -> Iterator[Field]:
        """Every field of every operation."""
        for path, handler in described_routes(HANDLERS):
            clean = documented_path(path)
            for method in sorted(handler.http_methods):
                said = operation(clean, method, handler)
                yield from self.fields_of(clean, method, said)
        for name in HEADERS:
            for method, path in (("GET", "/v1/agents/"), ("POST", "/v1/agents/")):
                yield Field(method, path, "header", (name,), HEADER_CHARS, {"name": "a"})

    def fields_of(self, path: str, method: str, said: Schema) -> Iterator[Field]:
        """Every field of an operation."""
        content = said.get("requestBody", {}).get("content", {})
        schema = content.get("application/json", {}).get("schema")
        known = BODIES.get(said["operationId"].partition("__")[0])
        body = None if schema is None else known[0] if known else self.sample(schema)
        for each in said["parameters"]:
            yield Field(method, path, each["in"], (each["name"],), PARAMETER_CHARS, body)
        if schema is None:
            return
        if len(content) > 1:
            yield Field(method, path, "text", (), UNBOUNDED_CHARS, body)
        for place, chars, is_json in self.texts(schema):
            yield Field(
                method, path, "body", place, chars, self.with_required(schema, place, body), is_json
            )

    def resolved(self, schema: Schema) -> Schema:
        """A schema itself, where it is a reference."""
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rpartition("/")[2]]
        return schema

    def texts(self, schema: Schema, place: Place = ()) -> Iterator[tuple[Place, int, bool]]:
        """The places of texts in a schema, how long each may be, and whether it is any JSON."""
        schema = self.resolved(schema)
        if len(place) > DEPTH_MAX:
            return
        for option in (
            *schema.get("anyOf", ()),
            *schema.get("oneOf", ()),
            *schema.get("allOf", ()),
        ):
            yield from self.texts(option, place)
        if schema.get("type") == "string" and not {"enum", "const"} & schema.keys():
            yield place, min(schema.get("maxLength", UNBOUNDED_CHARS), LENGTH_CHARS_MAX), False
        for name, below in schema.get("properties", {}).items():
            yield from self.texts(below, (*place, name))
        if isinstance(schema.get("items"), dict):
            yield from self.texts(schema["items"], (*place, 0))
        if schema.get("type") == "object" and "properties" not in schema:
            yield place, UNBOUNDED_CHARS, True

    def with_required(self, schema: Schema, place: Place, body: Any) -> Any:
        """A body that has what the tables on the way to a place need."""
        for length in range(1, len(place)):
            if body is not None and isinstance(place[length], str):
                body = self.add_sample(schema, place[:length], body)
        return body

    def add_sample(self, schema: Schema, place: Place, body: Any) -> Any:
        """A body with a sample at a place, unless it has something there."""
        found: Any = body
        for part in place:
            if isinstance(found, list):
                found = found[0] if found else None
            else:
                found = found.get(part) if isinstance(found, dict) else None
        return body if found else put(body, place, self.sample(self.at(schema, place)))

    def at(self, schema: Schema, place: Place) -> Schema:
        """The schema of a place."""
        for part in place:
            schema = self.option_with(self.resolved(schema), part)
        return schema

    def option_with(self, schema: Schema, part: str | int) -> Schema:
        """What a schema says of a part, whichever of its alternatives has that."""
        if isinstance(part, int) and isinstance(schema.get("items"), dict):
            return dict(schema["items"])
        if part in schema.get("properties", {}):
            return dict(schema["properties"][part])
        for option in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
            if found := self.option_with(self.resolved(option), part):
                return found
        return {}

    def sample(self, schema: Schema, depth: int = 0) -> Any:
        """A small value of a schema."""
        schema = self.resolved(schema)
        options = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        if options and depth < DEPTH_MAX:
            return self.sample(options[0], depth + 1)
        if "const" in schema or "enum" in schema:
            return schema.get("const", (schema.get("enum") or [None])[0])
        match schema.get("type"):
            case "string":
                found = ID_PATTERN.match(schema.get("pattern", ""))
                return f"{found[1]}-{EXAMPLE}" if found else "a/b"
            case "integer" | "number":
                return schema.get("minimum", 1)
            case "boolean":
                return True
            case "array":
                wanted = schema.get("minItems", 0) and depth < DEPTH_MAX
                return [self.sample(schema.get("items", {}), depth + 1)] if wanted else []
            case "object":
                return {
                    name: self.sample(schema["properties"][name], depth + 1)
                    for name in schema.get("required", ())
                    if depth < DEPTH_MAX and name in schema.get("properties", {})
                }
        return None
