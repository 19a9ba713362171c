"""Type annotations of Python source as JSON schemas; they are read, never evaluated."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.storable_text import UNSTORABLE

ANNOTATION_DEPTH_MAX = 8
SIMPLE: Mapping[str, JsonObject] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "dict": {"type": "object"},
    "Dict": {"type": "object"},
    "Mapping": {"type": "object"},
    "list": {"type": "array", "items": {"type": "string"}},
    "List": {"type": "array", "items": {"type": "string"}},
    "Sequence": {"type": "array", "items": {"type": "string"}},
    "tuple": {"type": "array", "items": {"type": "string"}},
    "set": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "Any": {},
    "None": {"type": "null"},
}
KNOWN = "str, int, float, bool, list[...], dict[str, ...], Literal[...], Optional[...] and `|`"


class UnknownAnnotation(Exception):
    """An annotation that is no JSON type; the text says which."""


def schema_of(annotation: ast.expr, depth: int = 0) -> JsonObject:
    """The JSON schema of a type. Raises UnknownAnnotation."""
    if depth > ANNOTATION_DEPTH_MAX:
        raise UnknownAnnotation(f"it has more than {ANNOTATION_DEPTH_MAX} levels")
    match annotation:
        case ast.Constant(value=None):
            return SIMPLE["None"]
        case ast.Constant(value=str(text)):
            return schema_of(parse_quoted(text), depth + 1)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return either([*alternatives(left), *alternatives(right)], depth)
        case ast.Subscript(value=value, slice=inner):
            return schema_of_generic(name_of(value), inner, depth)
    name = name_of(annotation)
    if name not in SIMPLE:
        raise UnknownAnnotation(f"`{name}` is none of {KNOWN}")
    return dict(SIMPLE[name])


def parse_quoted(text: str) -> ast.expr:
    """The expression of an annotation that stands in quotes. Raises UnknownAnnotation."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UnknownAnnotation("what stands in quotes is no type") from None


def name_of(annotation: ast.expr) -> str:
    """The last part of a name with dots."""
    match annotation:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    raise UnknownAnnotation(f"it is none of {KNOWN}")


def alternatives(annotation: ast.expr) -> list[ast.expr]:
    """The types between which `|` stands, in their order."""
    found: list[ast.expr] = []
    waiting = [annotation]
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                waiting += [right, left]
            case one:
                found.append(one)
    return found


def either(types: list[ast.expr], depth: int) -> JsonObject:
    """One of several types. That it may be None is said by what is not required."""
    schemas = [schema_of(type_name, depth + 1) for type_name in types]
    some: list[Json] = [schema for schema in schemas if schema != SIMPLE["None"]]
    match some:
        case []:
            return SIMPLE["None"]
        case [dict(only)]:
            return only
    return {"anyOf": some}


def schema_of_generic(name: str, inner: ast.expr, depth: int) -> JsonObject:
    """The schema of a type with something in brackets."""
    make = GENERICS.get(name)
    if make is None:
        raise UnknownAnnotation(f"`{name}[...]` is none of {KNOWN}")
    arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if not arguments:
        raise UnknownAnnotation(f"`{name}[]` has nothing in its brackets")
    return make(arguments, depth)


def literal(arguments: list[ast.expr], depth: int) -> JsonObject:
    """One of the values that are written there."""
    values: list[Json] = []
    for argument in arguments:
        if not isinstance(argument, ast.Constant) or not isinstance(
            argument.value, str | int | None
        ):
            raise UnknownAnnotation("`Literal[...]` may hold texts, whole numbers, True and False")
        if isinstance(argument.value, str) and UNSTORABLE.search(argument.value):
            raise UnknownAnnotation("`Literal[...]` has a character that cannot be stored")
        values.append(argument.value)
    kinds = {type(value) for value in values}
    names = {str: "string", int: "integer", bool: "boolean"}
    kind = names.get(kinds.pop()) if len(kinds) == 1 else None
    return {"type": kind, "enum": values} if kind else {"enum": values}


def array(arguments: list[ast.expr], depth: int) -> JsonObject:
    """A list; of a tuple, of what is in all its places."""
    items = [argument for argument in arguments if not is_ellipsis(argument)]
    return {"type": "array", "items": either(items, depth)}


def mapping(arguments: list[ast.expr], depth: int) -> JsonObject:
    """An object; its keys are texts."""
    if len(arguments) != 2 or schema_of(arguments[0], depth + 1) != SIMPLE["str"]:
        raise UnknownAnnotation("the keys of a dict are str: write dict[str, ...]")
    return {"type": "object", "additionalProperties": schema_of(arguments[1], depth + 1)}


def optional(arguments: list[ast.expr], depth: int) -> JsonObject:
    """The type that is there unless it is None."""
    return either(
        [alternative for argument in arguments for alternative in alternatives(argument)], depth
    )


def schema_of_annotated(arguments: list[ast.expr], depth: int) -> JsonObject:
    """The schema of the type inside `Annotated[...]`, without its metadata."""
    return schema_of(arguments[0], depth + 1)


def is_ellipsis(node: ast.expr) -> bool:
    """Whether a node is the constant `...`."""
    return isinstance(node, ast.Constant) and node.value is Ellipsis


GENERICS: Mapping[str, Callable[[list[ast.expr], int], JsonObject]] = {
    "Literal": literal,
    "Optional": optional,
    "Union": optional,
    "Annotated": schema_of_annotated,
    **dict.fromkeys(("list", "List", "Sequence", "tuple", "Tuple", "set", "Set"), array),
    **dict.fromkeys(("dict", "Dict", "Mapping"), mapping),
}
