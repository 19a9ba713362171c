"""Every way of saying no, in the words of V1, in one place."""

from __future__ import annotations

import csv
import json
import logging
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from litestar import Request, Response
from litestar.datastructures import State
from litestar.exceptions import (
    HTTPException,
    MethodNotAllowedException,
    NotFoundException,
)
from litestar.status_codes import HTTP_413_REQUEST_ENTITY_TOO_LARGE
from pydantic import ValidationError

from libs.bus.ports import BusUnavailable
from libs.contracts.bus_messages import (
    BUSY,
    CONFLICT,
    INVALID,
    NOT_FOUND,
    PARKED,
    PENDING_APPROVAL,
    RATE_LIMITED,
    REFUSALS,
    TOO_LARGE,
    UNAVAILABLE,
    UNPROCESSABLE,
    JsonObject,
    Rejected,
)
from libs.contracts.letta import error_bodies
from libs.eventstore.ports import StoreUnavailable

log = logging.getLogger(__name__)

BODY_BYTES_MAX = 6 * 1024 * 1024
RETRY_AFTER_SECONDS = "1"
RUN_HEADER = "x-run-id"

# A refusal's code to a status: the only place where the two meet.
STATUS = {
    NOT_FOUND: 404,
    INVALID: 400,
    UNPROCESSABLE: 422,
    CONFLICT: 409,
    TOO_LARGE: 413,
    UNAVAILABLE: 503,
    PARKED: 500,
    BUSY: 429,
    RATE_LIMITED: 429,
    PENDING_APPROVAL: 409,
}
assert set(STATUS) == set(REFUSALS), "every code of a refusal has a status"

# A failed run's error type to a status.
RUN_STATUS = {
    "run_not_found": 404,
    "group_has_nobody_to_answer": 409,
    "llm_bad_request": 400,
    "context_window_exceeded": 400,
    "context_window_overflow_in_system_prompt": 400,
    "llm_authentication": 401,
    "llm_insufficient_credits": 402,
    "llm_permission_denied": 403,
    "llm_not_found": 404,
    "llm_unprocessable_entity": 422,
    "llm_rate_limit": 429,
    "llm_connection_error": 502,
    "llm_provider_overloaded": 503,
    "llm_timeout": 504,
}

OPERATIONS = Path(__file__).with_name("operations.tsv")
# Clients ask for these and use them if they are there; a 404 sends them another way.
PROBED = ("/v1/environments", "/v1/metadata")
NOT_BUILT = 501


class Problem(Exception):
    """An answer that is not the wanted one."""

    def __init__(
        self, status: int, body: JsonObject, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(str(body))
        self.status = status
        self.body = body
        self.headers = dict(headers or {})


def refusal_problem(rejected: Rejected) -> Problem:
    """The answer to a request whose command was refused. A run that is in the way is named in a
    header; the body says, as in V1, where its stream can be read on."""
    later = rejected.next_try == "again"
    headers = {"Retry-After": RETRY_AFTER_SECONDS} if later else {}
    if rejected.code == RATE_LIMITED:
        headers["Retry-After"] = str(rejected.details["retry_after_seconds"])
    if rejected.code in (CONFLICT, PARKED, PENDING_APPROVAL):
        headers["x-should-retry"] = "false"
    if rejected.code == PENDING_APPROVAL:
        request_id = str(rejected.details["pending_request_id"])
        return Problem(409, error_bodies.approval_pending(request_id), headers)
    body: JsonObject = {"detail": rejected.reason}
    if "run_id" in rejected.details:
        headers[RUN_HEADER] = str(rejected.details["run_id"])
        if rejected.details.get("background"):
            body["run_id"] = rejected.details["run_id"]
    return Problem(STATUS[rejected.code], body, headers)


def run_failed(error: JsonObject) -> Problem:
    """A run that ended with an error; sending the same request again would not help, since it
    is answered with the same run."""
    kind = str(error["error_type"])
    detail = error.get("detail")
    body = error_bodies.llm_failure(kind, str(error["message"]), str(detail) if detail else None)
    return Problem(RUN_STATUS.get(kind, 500), body, {"x-should-retry": "false"})


def answer(status: int, body: JsonObject, headers: Mapping[str, str]) -> Response[bytes]:
    """A response with this body as JSON."""
    return Response(
        json.dumps(body).encode(),
        status_code=status,
        media_type="application/json",
        headers=dict(headers),
    )


def on_exception(request: Request[object, object, State], exception: Exception) -> Response[bytes]:
    """The response to any exception, in V1's form. A process edge: a bug is logged here, once."""
    problem = as_problem(request, exception)
    return answer(problem.status, problem.body, problem.headers)


def as_problem(request: Request[object, object, State], exception: Exception) -> Problem:
    """An exception as an answer."""
    match exception:
        case Problem():
            return exception
        case error_bodies.InvalidArgument():
            return Problem(400, exception.body)
        case ValidationError():
            return Problem(422, error_bodies.validation_detail(exception, "body"))
        case StoreUnavailable() | BusUnavailable():
            log.warning("unavailable: %s", exception)
            detail = "The server cannot reach its database or its bus right now: try again"
            return Problem(503, {"detail": detail}, {"Retry-After": RETRY_AFTER_SECONDS})
        case NotFoundException() | MethodNotAllowedException():
            return no_route(request, exception)
        case HTTPException(status_code=413):
            return too_large()
        case HTTPException():
            return Problem(exception.status_code, {"detail": exception.detail})
        case _:
            log.exception("%s %s failed", request.method, request.url.path, exc_info=exception)
            return Problem(500, error_bodies.UNKNOWN)


def too_large() -> Problem:
    """A body over the limit."""
    detail = f"The request body is larger than {BODY_BYTES_MAX} bytes: send less at once"
    return Problem(HTTP_413_REQUEST_ENTITY_TOO_LARGE, {"detail": detail})


def no_route(request: Request[object, object, State], exception: HTTPException) -> Problem:
    """A path that is not served: known to V1 and not built yet, or not known at all."""
    known = missing_operation(request.method, request.url.path)
    if known is not None:
        return Problem(*known)
    if isinstance(exception, MethodNotAllowedException):
        return Problem(405, {"detail": "Method Not Allowed"}, {"Allow": allowed_methods(request)})
    return Problem(404, {"detail": "Not Found"})


def allowed_methods(request: Request[object, object, State]) -> str:
    """The methods that a path has."""
    bare = request.url.path.rstrip("/")
    methods = {
        method
        for handler in request.app.state.handlers
        for path in handler.paths
        if path_pattern(path).fullmatch(bare)
        for method in handler.http_methods
    }
    return ", ".join(sorted(methods))


def missing_operation(method: str, path: str) -> tuple[int, JsonObject, dict[str, str]] | None:
    """Status, body and headers for a V1 operation that is not built; None for any other path."""
    bare = path.rstrip("/").replace("/latest/", "/v1/", 1)
    for known_method, pattern, name in operations():
        if known_method == method and pattern.fullmatch(bare):
            if any(part in name for part in PROBED):
                return 404, {"detail": "Not Found"}, {}
            detail = (
                f"{name} is not built in this server yet; docs/compatibility.md lists what is. "
                "Nothing was changed."
            )
            return NOT_BUILT, {"detail": detail}, {"x-should-retry": "false"}
    return None


@cache
def operations() -> list[tuple[str, re.Pattern[str], str]]:
    """Method, pattern of the path, and name of every V1 operation; those with fewest parameters
    first, as `/v1/runs/active` fits `/v1/runs/{run_id}` too."""
    with OPERATIONS.open() as table:
        rows = sorted(csv.DictReader(table, delimiter="\t"), key=lambda row: row["path"].count("{"))
    return [
        (method, path_pattern(row["path"]), f"{row['method']} {row['path']}")
        for row in rows
        for method in row["method"].split("|")
    ]


def path_pattern(path: str) -> re.Pattern[str]:
    """The pattern of paths with `{parameters}`, with or without a slash at the end."""
    parts = re.split(r"(\{[^}]+\})", path.rstrip("/"))
    return re.compile("".join(map(part_pattern, parts)))


def part_pattern(part: str) -> str:
    """The pattern of a part of a path: itself, or as a parameter one segment or (`:path`) many."""
    if not part.startswith("{"):
        return re.escape(part)
    return ".+" if part.endswith(":path}") else "[^/]+"
