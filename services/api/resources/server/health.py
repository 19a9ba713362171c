"""Health of the server."""

from __future__ import annotations

from litestar import Response

from libs.contracts.bus_messages import JsonObject
from libs.contracts.service_registry import names
from libs.contracts.version import HEELER_VERSION, LETTA_VERSION
from services.api.http.authentication import HEALTH_PATHS
from services.api.http.error_responses import answer
from services.api.http.request_parsing import AnyRequest
from services.api.openapi.operation import get


@get(HEALTH_PATHS, "health")
async def health(request: AnyRequest) -> Response[bytes]:
    """Tell the truth about Postgres, NATS and the services: 503 if something is missing."""
    parts = request.app.state.health.parts
    services = {name: parts.get(name, "down") for name in names()}
    needed = {"postgres": parts["postgres"], "nats": parts["nats"]}
    well = all(part == "ok" for part in [*needed.values(), *services.values()])
    body: JsonObject = {
        "version": LETTA_VERSION,
        "status": "ok" if well else "unavailable",
        "server": f"heeler {HEELER_VERSION}",
        **needed,
        "services": {**services},
        "dead_letters": request.app.state.health.dead_letters,
    }
    return answer(200 if well else 503, body, {})


@get("/livez", "health")
async def livez() -> JsonObject:
    """Say that this process runs."""
    return {"status": "ok"}
