"""Runs inside of the sandbox: makes the arguments of a call fit the annotations of its function.

Models send `"21"` for an int and JSON text for a list. What is certain becomes what the annotation
says; for all else there is an error that says what to send. Nothing of Heeler can be imported here.
"""

from __future__ import annotations

import ast
import json
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GIVEN_BY_THE_SERVER = "agent_state"
FORWARDED_MAX = 20
SHOWN_CHARS_MAX = 80
# From the next number on several whole ones are the same float: nobody knows which was meant.
EXACT_FLOAT_MAX = 2**53 - 1
YES, NO = ("true", "1", "yes", "on"), ("false", "0", "no", "off")
WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "NoneType": "null",
    "list": "a list",
    "dict": "an object",
}
LISTS = {
    **dict.fromkeys(("list", "Sequence", "MutableSequence", "Iterable", "Collection"), list),
    **{"tuple": tuple, "set": set, "Set": set, "MutableSet": set, "frozenset": frozenset},
}
# What a text is, too, as far as its items are texts.
READ_ONLY_LISTS = ("Sequence", "Iterable", "Collection")
OBJECTS = ("dict", "Mapping", "MutableMapping")
QUALIFIERS = ("Required", "NotRequired", "ReadOnly", "Final")


class Unfit(Exception):
    """A value that is not what was asked for; the text says what to send, and stands after the
    place that it is about."""


def fit_arguments(
    function: Callable[..., Any], arguments: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    """The arguments as the function asks for them; `given` are the types of those that it does not
    annotate. Raises TypeError, which names all that do not fit."""
    inner = innermost(function)
    if inner is None:
        return arguments
    names = inner.__globals__
    fitting: dict[str, Any] = {}
    problems = []
    for name, value in arguments.items():
        kind = inner.__annotations__.get(name, given.get(name, object))
        if value is None and means_default(inner, name, kind):
            continue
        try:
            own = name == GIVEN_BY_THE_SERVER
            fitting[name] = value if own else fit(value, kind, names)
        except Unfit as unfit:
            problems.append(f"`{name}`{unfit}")
    if problems:
        raise TypeError("; ".join(problems))
    return fitting


def innermost(function: Any) -> Any:
    """The function behind its decorators; None for what is none."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function if hasattr(function, "__code__") else None


def parameters(function: Any) -> list[str]:
    """The names that a function is called with, but what the server gives."""
    inner = innermost(function)
    if inner is None:
        return []
    code = inner.__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [name for name in named if name != GIVEN_BY_THE_SERVER]


def means_default(function: Any, name: str, kind: Any) -> bool:
    """Whether null stands for the default: it is none of the values that are asked for."""
    code, some = function.__code__, function.__defaults__ or ()
    places = code.co_varnames[code.co_argcount - len(some) : code.co_argcount]
    if name not in places and name not in (function.__kwdefaults__ or {}):
        return False
    try:
        fit(None, kind, function.__globals__)
    except Unfit:
        return True
    return False


def resolve(kind: Any, names: dict[str, Any]) -> Any:
    """The type that a quoted, aliased or annotated type stands for; `object` for an unknown one."""
    for _ in range(FORWARDED_MAX):
        if kind is None:
            return type(None)
        if isinstance(kind, str):
            try:
                kind = eval(kind, names)
            except Exception:
                return object
        elif hasattr(kind, "__forward_arg__"):
            kind = kind.__forward_arg__
        elif hasattr(kind, "__supertype__"):
            kind = kind.__supertype__
        elif hasattr(kind, "__metadata__"):
            kind = kind.__origin__
        elif type(kind).__name__ == "TypeAliasType":
            kind = kind.__value__
        elif name_of(kind) in QUALIFIERS:
            kind = kind.__args__[0]
        else:
            return kind
    return object


def name_of(kind: Any) -> str:
    """The name of a type, without its brackets."""
    if type(kind).__name__ == "UnionType":
        return "Union"
    origin = getattr(kind, "__origin__", None) or kind
    return str(getattr(origin, "_name", None) or getattr(origin, "__name__", ""))


def fit(value: Any, kind: Any, names: dict[str, Any]) -> Any:
    """The value as its type asks for it. Raises Unfit."""
    kind = resolve(kind, names)
    name, inner = name_of(kind), getattr(kind, "__args__", ())
    if name == "Union":
        return fit_one_of(value, inner, names)
    if name == "Literal":
        return fit_choice(value, {choice: choice for choice in inner})
    if name in LISTS and is_of_python(kind):
        return fit_list(value, name, inner, names)
    if name in OBJECTS and is_of_python(kind):
        return fit_object(value, inner, names)
    if isinstance(kind, type):
        return FITS[kind](value) if kind in FITS else fit_class(value, kind, names)
    return value


def is_of_python(kind: Any) -> bool:
    """Whether a type is no class of the program that is called like one of Python."""
    origin = getattr(kind, "__origin__", None) or kind
    return origin.__module__ in ("builtins", "collections.abc", "typing", "_collections_abc")


def fit_one_of(value: Any, kinds: Any, names: dict[str, Any]) -> Any:
    """As the type that it has already, else as the first one that it can be; bool, whose words are
    those of others too, comes last."""
    fits = []
    for kind in sorted(kinds, key=lambda option: resolve(option, names) is bool):
        try:
            fits.append(fit(value, kind, names))
        except Unfit:
            continue
    if not fits:
        raise Unfit(not_this(" or ".join(dict.fromkeys(map(in_words, kinds))), value))
    same = [fitting for fitting in fits if repr(fitting) == repr(value)]
    return [*same, *fits][0]


def fit_choice(value: Any, choices: dict[Any, Any]) -> Any:
    """One of the values that are written there, also as text."""
    for said, choice in choices.items():
        if type(said) is type(value) and said == value:
            return choice
    for said, choice in choices.items():
        if isinstance(value, str) != isinstance(said, str) and as_text(said) == as_text(value):
            return choice
    raise Unfit(not_this("one of " + ", ".join(quote(choice) for choice in choices), value))


def fit_list(value: Any, name: str, inner: Any, names: dict[str, Any]) -> Any:
    """A list, each of whose items fits, as the sort of list that is asked for."""
    items = parse(value, list)
    if isinstance(items, str) and name in READ_ONLY_LISTS and holds_texts(inner, names):
        return items
    if not isinstance(items, list):
        raise Unfit(not_this("a list", value))
    some = [item_kind for item_kind in inner if item_kind is not Ellipsis]
    if name == "tuple" and some and Ellipsis not in inner:
        if len(items) != len(some):
            raise Unfit(f" has {len(items)} items: give {len(some)}")
        kinds = some
    else:
        kinds = [some[0] if some else object] * len(items)
    pairs = zip(items, kinds)  # noqa: B905
    found = [within(f"[{at}]", *pair, names) for at, pair in enumerate(pairs)]
    try:
        return LISTS[name](found)
    except TypeError:
        raise Unfit(": give a list of simple values, each once") from None


def holds_texts(inner: Any, names: dict[str, Any]) -> bool:
    """Whether the items that are asked for may be texts."""
    return name_of(resolve(inner[0], names) if inner else str) in ("str", "Any", "object")


def fit_object(value: Any, inner: Any, names: dict[str, Any]) -> Any:
    """An object, each of whose names and values fits."""
    found = parse(value, dict)
    if not isinstance(found, dict):
        raise Unfit(not_this("an object", value))
    if len(inner) != 2:
        return found
    return {
        within(f"[{name!r}]", name, inner[0], names): within(f"[{name!r}]", item, inner[1], names)
        for name, item in found.items()
    }


def fit_class(value: Any, kind: Any, names: dict[str, Any]) -> Any:
    """An object of a class that takes fields; the value, where the class is none of those."""
    enum = sys.modules.get("enum")
    if enum is not None and issubclass(kind, enum.Enum):
        return fit_choice(value, {member.value: member for member in kind})
    fields = fields_of(kind)
    validate = getattr(kind, "model_validate", None) or getattr(kind, "parse_obj", None)
    if fields is None and validate is None:
        return value
    found = parse(value, dict)
    if not isinstance(found, dict):
        raise Unfit(not_this(f"an object with the fields of {kind.__name__}", value))
    try:
        return build(kind, fields, found, names) if fields is not None else validate(found)  # type: ignore[misc]
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(f": {in_one_line(error)}") from None


def build(kind: Any, fields: dict[str, Any], found: dict[str, Any], names: dict[str, Any]) -> Any:
    """An object of a class that is made of its fields."""
    missing = sorted(getattr(kind, "__required_keys__", frozenset()) - found.keys())
    if missing:
        raise Unfit(": " + ", ".join(f"`{name}` is missing" for name in missing))
    given = {
        name: within(f".{name}", part, fields.get(name, object), names)
        for name, part in found.items()
    }
    return kind(**given)


def fields_of(kind: Any) -> dict[str, Any] | None:
    """The types of the fields of a class that is made of its fields; None for others."""
    if hasattr(kind, "__dataclass_fields__"):
        return {part.name: part.type for part in kind.__dataclass_fields__.values() if part.init}
    if hasattr(kind, "__required_keys__"):
        return dict(kind.__annotations__)
    return None


def in_one_line(error: Exception) -> str:
    """The validation error of a class as one line; pydantic says it in many."""
    try:
        wrong = [(".".join(map(str, problem["loc"])), problem["msg"]) for problem in error.errors()]  # type: ignore[attr-defined]
    except Exception:
        return " ".join(str(error).split())
    return "; ".join(f"`{place}`: {what}" if place else what for place, what in wrong)


def within(place: str, value: Any, kind: Any, names: dict[str, Any]) -> Any:
    """A part that fits; the error of one that does not names its place."""
    try:
        return fit(value, kind, names)
    except Unfit as unfit:
        raise Unfit(f"{place}{unfit}") from None


def fit_int(value: Any) -> Any:
    """A whole number, also as text."""
    try:
        if isinstance(value, str):
            try:
                return int(value)
            except ValueError:
                value = float(value)
        if isinstance(value, bool) or value != int(value):
            raise ValueError
        if isinstance(value, float) and abs(value) > EXACT_FLOAT_MAX:
            raise ValueError
        return int(value)
    except (ValueError, TypeError, OverflowError):
        raise Unfit(not_this(WORDS["int"], value)) from None


def fit_float(value: Any) -> Any:
    """A number, also as text. Whole ones may stay so, as in Python."""
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise ValueError
        return float(value) if isinstance(value, str) else value
    except ValueError:
        raise Unfit(not_this(WORDS["float"], value)) from None


def fit_bool(value: Any) -> Any:
    """True or False, also as the words and numbers for them."""
    said = as_text(value).strip().lower() if isinstance(value, (str, int)) else ""
    if said not in YES + NO:
        raise Unfit(not_this(WORDS["bool"], value))
    return said in YES


def fit_str(value: Any) -> Any:
    """A text; a number is what its digits say."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Unfit(not_this(WORDS["str"], value))
    return as_text(value)


def fit_none(value: Any) -> Any:
    """Nothing, also as the word for it."""
    if value not in (None, "null", "None"):
        raise Unfit(not_this(WORDS["NoneType"], value))


FITS = {int: fit_int, float: fit_float, bool: fit_bool, str: fit_str, type(None): fit_none}


def parse(value: Any, kind: type) -> Any:
    """The value of a text read as JSON or Python, if that has this type; else the text itself."""
    if not isinstance(value, str):
        return value
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(value.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(found, kind):
            return found
    return value


def as_text(value: Any) -> str:
    """A simple value as JSON says it, without quotes."""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def quote(value: Any) -> str:
    """A value as JSON, as the model sent it, cut at `SHOWN_CHARS_MAX`."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}..."


def not_this(wanted: str, value: Any) -> str:
    """The advice to send something else than was sent."""
    return f": give {wanted}, not {quote(value)}"


def in_words(kind: Any) -> str:
    """The meaning of a type in words."""
    name = name_of(resolve(kind, {}))
    if name == "Literal":
        return "one of " + ", ".join(quote(choice) for choice in kind.__args__)
    return WORDS.get(name) or (WORDS["list"] if name in LISTS else f"an object of {name}")
