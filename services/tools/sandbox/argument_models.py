"""Runs inside of the sandbox, for a tool with an `args_json_schema`: makes the classes that this
describes, so that the function finds them by name and is called with their objects. Nothing of
Heeler, and no pydantic, can be imported here.
"""

from __future__ import annotations

import enum
import json
import types
import typing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SIMPLE: dict[str, Any] = {
    **{"string": str, "integer": int, "number": float, "boolean": bool, "null": type(None)},
    **{"array": list, "object": dict},
}


class Model(types.SimpleNamespace):
    """An object with the fields that a schema gives it, by attribute and by name."""

    __required_keys__: frozenset[str] = frozenset()
    defaults: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, **fields: Any) -> None:
        super().__init__(**{**self.defaults, **fields})

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {name: plain(value) for name, value in vars(self).items()}

    dict = model_dump

    def model_dump_json(self, **_: Any) -> str:
        """The fields of the model as JSON text."""
        return json.dumps(self.model_dump())


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Model):
        return value.model_dump()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple, set)) else value


class Models:
    """The classes of one schema: `root` is that of the schema itself, `found` are all by name."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.found: dict[str, Any] = {}
        self.parts: dict[str, Any] = {**schema.get("definitions", {}), **schema.get("$defs", {})}
        self.root = self.model(str(schema.get("title") or "Arguments"), schema)

    def model(self, name: str, schema: dict[str, Any]) -> Any:
        """The class of an object."""
        made: Any = type(name, (Model,), {"__annotations__": {}, "defaults": {}})
        self.found[name] = made
        properties = schema.get("properties", {})
        made.__required_keys__ = frozenset(schema.get("required", ()))
        for field, part in properties.items():
            made.__annotations__[field] = self.kind(part, f"{name}_{field}")
            if field not in made.__required_keys__:
                made.defaults[field] = part.get("default") if isinstance(part, dict) else None
        return made

    def referenced_class(self, reference: str) -> Any:
        """The class that a `$ref` names, which may be unfinished: schemas can refer to
        themselves."""
        name = reference.rpartition("/")[2]
        if name not in self.found:
            self.found[name] = object  # of what leads to itself and is no object
            self.found[name] = self.kind(self.parts.get(name), name)
        return self.found[name]

    def kind(self, schema: Any, name: str) -> Any:
        """The type of what a schema allows; `object` where it says nothing."""
        if not isinstance(schema, dict):
            return object
        if "$ref" in schema:
            return self.referenced_class(schema["$ref"])
        several = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if several:
            return typing.Union[tuple(self.kind(option, name) for option in several)]  # noqa: UP007
        values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
        if values:
            return self.choice(values, schema.get("title") if name in self.parts else None)
        said = schema.get("type")
        if isinstance(said, list):
            return typing.Union[tuple(self.kind({**schema, "type": word}, name) for word in said)]  # noqa: UP007
        if said == "array" and "items" in schema:
            return typing.List[self.kind(schema["items"], name)]  # type: ignore[misc]  # noqa: UP006
        if "properties" in schema:
            return self.model(name, schema)
        if isinstance(schema.get("additionalProperties"), dict):
            return typing.Dict[str, self.kind(schema["additionalProperties"], name)]  # type: ignore[misc]  # noqa: UP006
        return SIMPLE.get(str(said), object)

    def choice(self, values: list[Any], title: str | None) -> Any:
        """One of some values: of an `Enum`, where these have a name."""
        if not title:
            return typing.Literal[tuple(values)]
        mixin = {"type": str} if all(isinstance(value, str) for value in values) else {}
        return enum.Enum(title, {str(value): value for value in values}, **mixin)


def names_of(models: Models) -> dict[str, Any]:
    """The names that the source of a tool finds: its classes, and the types that a source of a
    single function does not import."""
    types_of = {name: getattr(typing, name) for name in typing.__all__}
    classes = {name: kind for name, kind in models.found.items() if name.isidentifier()}
    return {**types_of, **classes}
