"""The configuration of the server: which one holds, and loading it anew."""

from __future__ import annotations

from litestar import Response

from libs.contracts.bus_messages import JsonObject
from services.api.adapters.server.supervisor import (
    CHECKED_SECONDS_MAX,
    NoSupervisor,
    Supervisor,
    latest,
)
from services.api.http.callers import is_operator
from services.api.http.error_responses import Problem, answer
from services.api.http.request_parsing import AnyRequest
from services.api.openapi.operation import get, post

REFUSED = "refused"
NOT_OPERATOR = "Only the operator of the server may see and change its configuration"
NO_SUPERVISOR = (
    "This server has no supervisor that could load its configuration anew: start its processes or"
    " containers again"
)


@get("/v1/admin/configuration", "configuration of the server")
async def retrieve_configuration(request: AnyRequest) -> Response[bytes]:
    """Show the version of the configuration that holds, and the last attempts to load another."""
    try:
        return answer(200, supervisor_of(request).configuration(), {})
    except NoSupervisor:
        raise no_supervisor() from None


@post("/v1/admin/configuration/reload", "configuration of the server", status_code=202)
async def reload_configuration(request: AnyRequest) -> Response[bytes]:
    """Load the configuration anew: it is checked as a whole, and applied as a whole or not at all.

    The answer comes when it is checked. Processes that read what has changed are replaced after
    that, this one too, and all go back if one of them does not get healthy: the configuration that
    is retrieved says how it ends.
    """
    try:
        document = await supervisor_of(request).reload()
    except NoSupervisor:
        raise no_supervisor() from None
    except TimeoutError:
        detail = f"The configuration was not checked within {CHECKED_SECONDS_MAX:g} s"
        raise Problem(503, {"detail": detail}) from None
    attempt = latest(document)
    if attempt["status"] == REFUSED:
        detail = "; ".join(attempt["problems"])
        raise Problem(422, {"detail": f"Nothing is changed: {detail}", "configuration": document})
    return answer(202, document, {})


def supervisor_of(request: AnyRequest) -> Supervisor:
    """The supervisor, for the operator alone. Raises the 403 for others."""
    if not is_operator(request):
        raise Problem(403, {"detail": NOT_OPERATOR})
    supervisor: Supervisor = request.app.state.supervisor
    return supervisor


def no_supervisor() -> Problem:
    """The answer where nobody can load the configuration anew."""
    detail: JsonObject = {"detail": NO_SUPERVISOR}
    return Problem(409, detail, {"x-should-retry": "false"})
