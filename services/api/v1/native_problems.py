"""The one form that errors of the native API have: `detail` is always a sentence, and `problems`,
where there are any, say what is wrong with each field of a body."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from litestar import Response

from libs.contracts.bus_messages import Json, JsonObject
from services.api.http.error_responses import Problem, answer, as_problem
from services.api.http.request_parsing import AnyRequest

CODE = re.compile(r"^[A-Z]+(_[A-Z]+)*: ")  # V1 begins some sentences so: `INVALID_ARGUMENT: `
# What V1 says of a new agent whose model, tool or name is wrong.
WRONG_FIELDS = (400, 404)


def on_native_exception(request: AnyRequest, exception: Exception) -> Response[bytes]:
    """The response to any exception, in the form of the native API."""
    problem = as_problem(request, exception)
    body: JsonObject = {"detail": sentence_of(problem.body) or f"The server says {problem.status}"}
    for name in ("problems", "ids"):
        if name in problem.body:
            body[name] = problem.body[name]
    return answer(problem.status, body, problem.headers)


def sentence_of(body: Json) -> str:
    """The sentence of an error, whichever of V1's shapes it has."""
    match body:
        case str():
            return CODE.sub("", body)
        case {"detail": detail} if detail:
            return sentence_of(detail)
        case {"error": dict() as error}:
            parts = [str(error[name]) for name in ("message", "detail") if error.get(name)]
            return ": ".join(parts)
        case {"message": str() as message}:
            return message
    return ""


def unprocessable(detail: str, *problems: JsonObject) -> Problem:
    """The 422 for a request that is not understood."""
    body: JsonObject = {"detail": detail}
    return Problem(422, {**body, "problems": [*problems]} if problems else body)


@contextmanager
def wrong_fields_as_unprocessable() -> Iterator[None]:
    """Within, what V1 refuses of a body as missing or wrong is a 422, as other wrong fields are."""
    try:
        yield
    except Problem as problem:
        if problem.status not in WRONG_FIELDS:
            raise
        raise unprocessable(sentence_of(problem.body)) from problem
