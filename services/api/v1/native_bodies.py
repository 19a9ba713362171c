"""Read what clients of the native API send: every field that is wrong is named at once, and what is
unknown is refused, with the name that is nearest to it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from libs.contracts.bus_messages import Json, JsonObject
from services.api.http.error_responses import Problem
from services.api.http.request_parsing import (
    HALF_OF_A_PAIR,
    AnyRequest,
    Query,
    decoding_error,
    json_of,
    place_of_half_a_pair,
)
from services.api.v1.native_problems import unprocessable

PROBLEMS_SHOWN_MAX = 50
FIELD_CHARS_MAX = 100
UNKNOWN = "extra_forbidden"


async def native_body[M: BaseModel](request: AnyRequest, model: type[M]) -> M:
    """The JSON body as a model. Raises the 422 that names all that is wrong with it."""
    return fitting(native_json(await request.body()), model, "body")


def native_query[Q: Query](request: AnyRequest, model: type[Q]) -> Q:
    """The query parameters as a model. Raises the 422 that names all that is wrong with them."""
    given = request.query_params
    values: JsonObject = {name: given.getall(name)[-1].replace("\x00", "") for name in given}
    return fitting(values, model, "query")


def native_json(raw: bytes) -> Json:
    """The value that a body is. Raises the 422 that says where it stops being JSON."""
    try:
        return json_of(raw)
    except Problem:
        raise unprocessable(*syntax_problem(raw)) from None


def syntax_problem(raw: bytes) -> tuple[str, JsonObject]:
    """Why a body is no JSON that is taken: in a sentence, and as a problem with its place."""
    half = place_of_half_a_pair(raw)
    if half is not None:
        field = ascii(".".join(map(str, half)))[1:-1][:FIELD_CHARS_MAX]
        return f"{field}: {HALF_OF_A_PAIR}", problem_of(field, "value_error", HALF_OF_A_PAIR)
    line = column = 0
    words = "the body is empty" if not raw else "it is too deep, too large or no UTF-8"
    if raw and (found := decoding_error(raw)):
        line, column, words = found.lineno, found.colno, found.msg
    place = f" at line {line}, column {column}" if line and raw else ""
    problem = problem_of("", "json_invalid", words, line=line, column=column)
    return f"The body is not JSON{place}: {words}", problem


def fitting[M: BaseModel](data: Json, model: type[M], where: str) -> M:
    """A value as a model. Raises the 422 that names all that is wrong with it."""
    try:
        return model.model_validate(data)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False, include_context=False, include_input=False)
        errors = errors[:PROBLEMS_SHOWN_MAX]
        problems = list(problems_of(errors, list(model.model_fields)))
        raise unprocessable(summary(problems, where), *problems) from None


def problems_of(errors: Sequence[ErrorDetails], names: Sequence[str]) -> Iterator[JsonObject]:
    """The problems that the errors of a validation are; `names` are the fields that there are."""
    for error in errors:
        field = ".".join(map(str, error["loc"]))[:FIELD_CHARS_MAX]
        if error["type"] == UNKNOWN:
            close = difflib.get_close_matches(field, names, n=1)
            suggestion = close[0] if close else ""
            expected = ", ".join(names)
            yield problem_of(field, UNKNOWN, "There is no such field", expected, suggestion)
        else:
            yield problem_of(field, error["type"], error["msg"])


def problem_of(
    field: str,
    code: str,
    message: str,
    expected: str = "",
    suggestion: str = "",
    *,
    line: int = 0,
    column: int = 0,
) -> JsonObject:
    """A problem, in the form that the problems of a file have."""
    return {
        "file": "",
        "line": line,
        "column": column,
        "code": code,
        "message": message,
        "expected": expected,
        "suggestion": suggestion,
        "severity": "error",
        "field": field,
    }


def summary(problems: Sequence[JsonObject], where: str) -> str:
    """The first problem in a sentence, and how many others there are."""
    first = problems[0]
    field, sentence = str(first["field"] or where), str(first["message"])
    if field not in sentence:
        sentence = f"`{field}`: {sentence}"
    if first["line"]:
        sentence = f"Line {first['line']}: {sentence}"
    if first["suggestion"]:
        sentence += f": did you mean `{first['suggestion']}`?"
    more = len(problems) - 1
    return f"{sentence} ({more} more problem{'s' if more > 1 else ''})" if more else sentence
