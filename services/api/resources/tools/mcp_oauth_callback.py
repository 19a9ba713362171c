"""Where a person's browser comes back to, once they have let an MCP server be used."""

from __future__ import annotations

from typing import Annotated

from litestar import Response
from pydantic import Field

from libs.contracts.bus_messages import Rejected
from libs.contracts.tools.mcp_authorizations import AnswerMcpAuthorization, authorization_id
from services.api.http.authentication import OAUTH_CALLBACK
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, refusal_problem
from services.api.http.handler_dependencies import COMMAND_SECONDS_MAX, api_of
from services.api.http.request_parsing import AnyRequest, Query, context_of, query_of
from services.api.openapi.operation import get

PARAMETER_CHARS_MAX = 4_096
SCHEMES = ("http", "https")
PAGE = (
    "<!doctype html><meta charset=utf-8><title>Authorized</title>"
    "<p>The MCP server is authorized. You can close this window.</p>"
)

type Parameter = Annotated[str | None, Field(max_length=PARAMETER_CHARS_MAX)]


class Callback(Query):
    """The answer of an authorization server."""

    code: Parameter = None
    state: Parameter = None
    iss: Parameter = None
    error: Parameter = None
    error_description: Parameter = None


def callback_address(request: AnyRequest) -> str:
    """Where a browser comes back to that reaches this server as this request did. A proxy that ends
    TLS says so in `X-Forwarded-Proto`."""
    scheme = request.headers.get("x-forwarded-proto", "http")
    host = request.headers.get("host", "localhost")
    return f"{scheme if scheme in SCHEMES else 'http'}://{host}{OAUTH_CALLBACK}"


@get(OAUTH_CALLBACK, "a page for a person", query=Callback)
async def mcp_oauth_callback(request: AnyRequest) -> Response[bytes]:
    """Take the word of a person that an MCP server may be used. Who calls this needs no password,
    but the `state` that only their authorization server was told."""
    asked = query_of(request, Callback)
    if not asked.state or not (asked.code or asked.error):
        detail = (
            "An authorization server sends `state`, and `code` or `error`: something is missing"
        )
        raise Problem(400, {"detail": detail})
    api = api_of(request)
    error = f"{asked.error} {asked.error_description or ''}".strip() if asked.error else ""
    command = AnswerMcpAuthorization(
        authorization_id=authorization_id(org_of(request), asked.state),
        code=api.sealer.seal(asked.code) if asked.code and not error else "",
        issuer=asked.iss or "",
        error=error[:500],
    )
    context = context_of(request, api.ids.new("cmd"))
    reply = await api.bus.request(command, context, seconds_max=COMMAND_SECONDS_MAX)
    if isinstance(reply, Rejected):
        raise refusal_problem(reply)
    if error:
        raise Problem(400, {"detail": f"The authorization was refused: {error[:500]}"})
    return Response(PAGE.encode(), status_code=200, media_type="text/html; charset=utf-8")
