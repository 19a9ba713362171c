"""The schema of a tool from its Python source: from the docstring and the annotations of its
function. The source is parsed, and never imported or executed."""

from __future__ import annotations

import ast
import warnings

import docstring_parser

from libs.contracts.bus_messages import Json, JsonObject
from libs.contracts.letta.tool_requests import SOURCE_CHARS_MAX
from libs.contracts.storable_text import UNSTORABLE
from services.tools.domain.annotation_json_schemas import UnknownAnnotation, schema_of

ARGUMENTS_MAX = 100
NAME_CHARS_MAX = 64  # what providers take
GIVEN_BY_THE_SERVER = ("agent_state",)  # arguments that no model fills in

type Function = ast.FunctionDef | ast.AsyncFunctionDef


class UnfitSource(Exception):
    """Source that is no tool; the text says what to change in it."""


def schema_from_source(source: str) -> JsonObject:
    """The function schema that models are shown. Raises UnfitSource."""
    function = function_of(source)
    documented = documentation(function)
    description = (documented.description or "").strip()
    if not description:
        raise UnfitSource(
            f"function `{function.name}` has no docstring: its first lines tell models what it does"
        )
    about = {param.arg_name: param.description for param in documented.params}
    properties: JsonObject = {
        arg.arg: argument_schema(arg, function, about) for arg in arguments_of(function)
    }
    required: list[Json] = [*required_of(function)]
    return {
        "name": function.name,
        "description": description,
        "parameters": {"type": "object", "properties": properties, "required": required},
    }


def function_of(source: str) -> Function:
    """The last function of the source, which is the tool. Raises UnfitSource."""
    if len(source) > SOURCE_CHARS_MAX:
        raise UnfitSource(f"it has {len(source)} characters, and may have {SOURCE_CHARS_MAX}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes in the source of somebody else
            module = ast.parse(source)
    except SyntaxError as wrong:
        raise UnfitSource(f"{wrong.msg} (line {wrong.lineno})") from None
    except (RecursionError, MemoryError):
        raise UnfitSource("it is nested too deeply") from None
    except ValueError as wrong:
        raise UnfitSource(str(wrong)) from None
    functions = [
        node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    if not functions:
        raise UnfitSource("it has no function: define one at the top level")
    if len(functions[-1].name) > NAME_CHARS_MAX:
        raise UnfitSource(f"the name of its function has more than {NAME_CHARS_MAX} characters")
    return functions[-1]


def documentation(function: Function) -> docstring_parser.Docstring:
    """The parsed docstring of a function and of its arguments. Raises UnfitSource."""
    text = ast.get_docstring(function) or ""
    if UNSTORABLE.search(text):
        raise UnfitSource(
            f"the docstring of `{function.name}` has an escape for a character that cannot be"
            " stored: leave out NUL and halves of surrogate pairs"
        )
    try:
        return docstring_parser.parse(text)
    except docstring_parser.ParseError as wrong:
        raise UnfitSource(f"the docstring of `{function.name}`: {wrong}") from None
    except IndexError:
        raise UnfitSource(
            f"the docstring of `{function.name}`: a field begins with `:` and has no name"
        ) from None


def arguments_of(function: Function) -> list[ast.arg]:
    """The arguments that a model fills in, in their order."""
    given = function.args
    if given.vararg or given.kwarg:
        raise UnfitSource(
            f"function `{function.name}` takes any arguments (`*` or `**`): name each of them"
        )
    if given.posonlyargs:
        raise UnfitSource(
            f"function `{function.name}`: tools are called by name, leave out the `/`"
        )
    named = [arg for arg in (*given.args, *given.kwonlyargs) if arg.arg not in GIVEN_BY_THE_SERVER]
    if len(named) > ARGUMENTS_MAX:
        raise UnfitSource(f"function `{function.name}` has more than {ARGUMENTS_MAX} arguments")
    return named


def argument_schema(arg: ast.arg, function: Function, about: dict[str, str | None]) -> JsonObject:
    """The schema of one argument."""
    where = f"argument `{arg.arg}` of `{function.name}`"
    if arg.annotation is None:
        raise UnfitSource(f"{where} has no type: annotate it")
    description = about.get(arg.arg)
    if not description:
        raise UnfitSource(f"{where} is not described: add it under `Args:` in the docstring")
    try:
        return {**schema_of(arg.annotation), "description": description}
    except UnknownAnnotation as unknown:
        why = f"{unknown}; or give the schema in `json_schema`"
        raise UnfitSource(f"{where} has a type that has no JSON schema: {why}") from None


def required_of(function: Function) -> list[str]:
    """The names of the arguments that have no default."""
    given = function.args
    without = given.args[: len(given.args) - len(given.defaults)]
    keywords = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    named = [*without, *(arg for arg, default in keywords if default is None)]
    return [arg.arg for arg in named if arg.arg not in GIVEN_BY_THE_SERVER]
