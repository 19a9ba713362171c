"""The form of a file: which keys there are, of which type, how long; all problems at once."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from datetime import date, datetime, time
from math import isfinite
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from libs.agent_toml.reporting import Reporter, enumerate_words, name_of, quote
from libs.agent_toml.toml_positions import DIGITS_MAX, Path
from libs.contracts.letta.request_size_limits import walk

ROUNDS_MAX = 8
ERRORS_MAX = 500
INTEGER_MAX = 10**DIGITS_MAX - 1
PLACEHOLDER = "missing"
# In the words of TOML.
TYPES = {
    "string_type": "a text in quotes",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list in brackets",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "datetime_type": "a time",
}
TOML_TYPES: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (str, "a text"),
    (int, "a whole number"),
    (float, "a number with a fraction"),
    (datetime, "a time"),
    (date, "a date"),
    (time, "a time of the day"),
    (list, "a list"),
    (dict, "a table"),
)
LONG = (
    "string_too_long",
    "too_long",
    "less_than_equal",
    "less_than",
    "json_too_long",
    "json_too_deep",
    "json_too_many_keys",
)
SHORT = ("string_too_short", "too_short", "greater_than_equal", "greater_than")
PATTERNS = {
    "model": "a handle such as 'openai/gpt-4.1'",
    "embedding": "a handle such as 'openai/text-embedding-3-small'",
    "name": "letters, digits, spaces, hyphens, underscores and apostrophes",
    "secrets": "letters, digits and underscores, and no digit first",
    "capabilities": "letters, digits, spaces and any of . _ : -",
}


def checked_form[Form: BaseModel](
    data: dict[str, Any], reporter: Reporter, form: type[Form]
) -> Form | None:
    """The document in this form, as far as the file has one: what is wrong is reported and left
    out, so that the rest can be checked, too. None where too little is left."""
    rest: dict[str, Any] = deepcopy(data)
    _check_values(rest, reporter)
    for _ in range(ROUNDS_MAX):
        try:
            return form.model_validate(rest)
        except ValidationError as error:
            found = error.errors(include_url=False)
            for details in found[:ERRORS_MAX]:
                _report(details, rest, reporter, form)
            if len(found) > ERRORS_MAX:
                return None
            _leave_out(rest, error, reporter, form)
    return None


def _check_values(data: dict[str, Any], reporter: Reporter) -> None:
    """Report and replace the values of TOML that no JSON has."""
    for path, value in list(walk(data)):
        if isinstance(value, (date, time)) and not _is_moment(path):
            words = f"{name_of(path)} is a time of TOML, which cannot be kept as it is"
            reporter.error(
                path, "AGT107", words, expected="a text", suggestion=f'"{value.isoformat()}"'
            )
        elif isinstance(value, float) and not isfinite(value):
            reporter.error(path, "AGT107", f"{name_of(path)} is no finite number")
        elif isinstance(value, int) and abs(value) > INTEGER_MAX:
            # Written as hexadecimal, octal or binary: there is no limit on reading those.
            words = f"{name_of(path)} is a whole number of more than {DIGITS_MAX} digits"
            reporter.error(path, "AGT107", words)
        elif isinstance(value, str) and "\x00" in value:
            words = f"{name_of(path)} has the character NUL, which cannot be kept"
            reporter.error(path, "AGT107", words)
        else:
            continue
        reporter.broken.add(path)
        _put(data, path, PLACEHOLDER if isinstance(value, str) else None)


def _is_moment(path: Path) -> bool:
    """Whether this key takes a time of TOML."""
    return len(path) == 3 and path[0] == "schedules" and path[2] == "at"


def _report(
    details: ErrorDetails, data: dict[str, Any], reporter: Reporter, form: type[BaseModel]
) -> None:
    """Report one error of the models, in the words of TOML."""
    path = _path_in(data, details["loc"])
    kind, given, context = details["type"], details["input"], details.get("ctx", {})
    name = name_of(path)
    match kind:
        case "missing":
            words = f"`{path[-1]}` is missing{_in_table(path[:-1])}"
            reporter.error(path, "AGT101", words, expected=_described(path, form))
        case "extra_forbidden":
            _report_unknown(path, reporter, form)
        case "literal_error":
            known = _words(context.get("expected", ""))
            reporter.error(
                path,
                "AGT105",
                f"{name} is {quote(given)}",
                expected=f"one of {enumerate_words(known)}",
                suggestion=reporter.suggest(str(given), known),
            )
        case "string_pattern_mismatch":
            pattern = next((PATTERNS[str(p)] for p in path if p in PATTERNS), "")
            expected = pattern or f"what matches {context.get('pattern', '')}"
            reporter.error(path, "AGT106", f"{name} is {quote(given)}", expected=expected)
        case _ if kind in LONG or kind in SHORT:
            code = "AGT104" if kind in LONG else "AGT108"
            reporter.error(
                path,
                code,
                f"{name}: {_size_words(given)}",
                expected=_limit_words(kind, context) or details["msg"],
            )
        case _:
            expected = TYPES.get(kind, "")
            words = f"{name} is {_toml_type(given)}" if expected else f"{name}: {details['msg']}"
            code = "AGT103" if expected else "AGT106"
            reporter.error(path, code, words, expected=expected, suggestion=_cast(kind, given))


def _report_unknown(path: Path, reporter: Reporter, form: type[BaseModel]) -> None:
    known = keys_of(path[:-1], form)
    reporter.error(
        path,
        "AGT102",
        f"there is no key `{path[-1]}`{_in_table(path[:-1])}",
        expected=f"one of {enumerate_words(known)}",
        suggestion=reporter.suggest(str(path[-1]), known) or _elsewhere(str(path[-1])),
        at_key=True,
    )


def _elsewhere(word: str) -> str:
    """The name here of a key of V1, or of another table."""
    return {
        "system": "system_prompt",
        "prompt": "system_prompt",
        "instructions": "system_prompt",
        "llm": "model",
        "memory_blocks": "[[memory]]",
        "blocks": "[[memory]]",
        "context_window_limit": "context_window",
        "temperature": "[model_settings] temperature",
        "max_tokens": "[model_settings] max_output_tokens",
        "custom_tools": "[[tool]]",
        "mcp": "[[mcp_servers]]",
        "path": "file",
        "every_minutes": "every",
    }.get(word, "")


def _path_in(data: dict[str, Any], loc: tuple[int | str, ...]) -> Path:
    """The path of an error in the file: without what the models add (alternatives of a type)."""
    path: Path = ()
    value: Any = data
    for index, part in enumerate(loc):
        if _has(value, part):
            value = value[part]
        elif index < len(loc) - 1 or not isinstance(value, dict):
            continue
        path = (*path, part)
    return path


def _has(value: Any, part: int | str) -> bool:
    """Whether a table has this key, or a list this entry."""
    if isinstance(value, list):
        return isinstance(part, int) and part < len(value)
    return isinstance(value, dict) and part in value


def _leave_out(
    data: dict[str, Any], error: ValidationError, reporter: Reporter, form: type[BaseModel]
) -> None:
    """Take out what was reported; a key that is missing gets a value that nobody looks at."""
    for details in error.errors(include_url=False, include_input=False):
        path = _path_in(data, details["loc"])
        if details["type"] == "missing":
            _put(data, path, PLACEHOLDER)
            is_entry = len(path) > 1 and isinstance(path[-2], int)
            reporter.broken.add(path[:-1] if is_entry else path)
            continue
        if details["type"] == "extra_forbidden":
            meant = reporter.suggest(str(path[-1]), keys_of(path[:-1], form))
            reporter.broken |= {(*path[:-1], meant)} if meant else set()
        reporter.broken.add(path)
        _put(data, path, None)
    _drop_none(data)


def _put(data: Any, path: Path, value: Any) -> None:
    """Set a value within the document, if what it is in is still there."""
    for part in path[:-1]:
        if not _has(data, part):
            return
        data = data[part]
    if isinstance(data, dict) or _has(data, path[-1]):
        data[path[-1]] = value


def _drop_none(value: Any) -> None:
    """Remove what was taken out, from tables and lists."""
    below: Iterable[Any] = ()
    if isinstance(value, dict):
        for key in [key for key, each in value.items() if each is None]:
            del value[key]
        below = value.values()
    elif isinstance(value, list):
        value[:] = [each for each in value if each is not None]
        below = value
    for each in below:
        _drop_none(each)


def keys_of(path: Path, form: type[BaseModel]) -> list[str]:
    """The keys that the table at a path may have."""
    model = model_at(path, form)
    return [] if model is None else list(model.model_fields)


def model_at(path: Path, form: type[BaseModel]) -> type[BaseModel] | None:
    """The model of the table at a path; None where any keys may be."""
    model: type[BaseModel] | None = form
    is_any_name = False  # the next part is a name that somebody gave, as a label
    for part in path:
        if isinstance(part, int) or is_any_name:
            is_any_name = False
            continue
        if model is None or part not in model.model_fields:
            return None
        annotation = model.model_fields[part].annotation
        model, is_any_name = _model_in(annotation), get_origin(annotation) is dict
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model within an annotation such as `list[Tool]` or `Limits | None`."""
    annotation = getattr(annotation, "__value__", annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_in(argument)
        if found is not None:
            return found
    return None


def _described(path: Path, form: type[BaseModel]) -> str:
    model = model_at(path[:-1], form)
    if model is None or path[-1] not in model.model_fields:
        return ""
    return model.model_fields[str(path[-1])].description or ""


def _in_table(path: Path) -> str:
    return f" in {name_of(path)}" if path else ""


def _words(text: str) -> list[str]:
    """The words of pydantic's "'a', 'b' or 'c'"."""
    return [word.strip(" '") for part in text.split(",") for word in part.split(" or ")]


def _toml_type(value: Any) -> str:
    return next((words for kind, words in TOML_TYPES if isinstance(value, kind)), "nothing")


def _cast(kind: str, given: Any) -> str:
    """The same value of the expected type, where that is obvious."""
    if kind in ("int_type", "float_type", "int_from_float") and isinstance(given, str):
        return given.strip() if given.strip().isdecimal() else ""
    if kind == "bool_type" and isinstance(given, str):
        return {"true": "true", "yes": "true", "false": "false", "no": "false"}.get(
            given.lower(), ""
        )
    if kind == "string_type" and isinstance(given, (int, float)) and not isinstance(given, bool):
        return f'"{given}"'
    if kind == "list_type" and isinstance(given, str):
        return f'["{given}"]' if len(given) < 60 else ""
    return ""


def _size_words(given: Any) -> str:
    if isinstance(given, str):
        return f"it has {len(given)} characters"
    if isinstance(given, (list, dict)):
        return f"it has {len(given)} entries"
    return f"it is {given}"


def _limit_words(kind: str, context: dict[str, Any]) -> str:
    bounds = {"max_length": "at most", "le": "at most", "lt": "less than"}
    bounds |= {"min_length": "at least", "ge": "at least", "gt": "more than"}
    unit = " characters" if kind.startswith("string") else ""
    for key, words in bounds.items():
        if key in context:
            return f"{words} {context[key]}{unit}"
    return ""
