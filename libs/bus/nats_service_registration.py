"""The services in NATS's own protocol for services: `nats micro ls`, `nats micro stats agent`."""

from __future__ import annotations

from typing import Any

import nats.micro
from nats.aio.client import Client
from nats.micro.request import Request
from nats.micro.service import EndpointInfo

from libs.contracts.version import HEELER_VERSION
from libs.telemetry import metrics
from libs.telemetry.prometheus_exposition import PROCESS, families, merge_families


async def register(service: str, client: Client) -> None:
    """Make a service known, with one endpoint: `<service>.metrics` answers what the process that
    is asked counts."""

    async def answer(request: Request) -> None:
        await request.respond(merge_families([families()]).encode())

    def stats(_: EndpointInfo) -> dict[str, Any]:
        return {"process": PROCESS, "commands": commands_of(service)}

    registered = await nats.micro.add_service(
        client,
        name=service,
        version=HEELER_VERSION,
        description=f"Heeler {service}",
        metadata={"process": PROCESS},
        stats_handler=stats,
    )
    await registered.add_endpoint(name="metrics", subject=f"{service}.metrics", handler=answer)


def commands_of(service: str) -> dict[str, dict[str, int]]:
    """The commands of a service that this process handled, by name and outcome."""
    handled: dict[str, dict[str, int]] = {}
    for family in metrics.COMMANDS.collect():
        for sample in family.samples:
            name = sample.labels["command"]
            if name.startswith(f"{service}."):
                handled.setdefault(name, {})[sample.labels["outcome"]] = int(sample.value)
    return handled
