"""The services in NATS's own protocol for services: `nats micro ls`, `nats micro stats agent`."""

from __future__ import annotations

import logging
from typing import Any

from nats.aio.client import Client
from nats.errors import FlushTimeoutError
from nats.micro.request import Request
from nats.micro.service import EndpointStats, ServiceConfig
from nats.micro.service import Service as MicroService

from libs.contracts.version import HEELER_VERSION
from libs.telemetry import metrics
from libs.telemetry.prometheus_exposition import families, merge_families, process_name

log = logging.getLogger(__name__)


async def register(service: str, client: Client) -> None:
    """Make a service known, with one endpoint: `<service>.metrics` answers what the process that
    is asked counts."""

    async def answer(request: Request) -> None:
        await request.respond(merge_families([families()]).encode())

    def stats(_: EndpointStats) -> dict[str, Any]:
        return {"process": process_name(), "commands": commands_of(service)}

    config = ServiceConfig(
        name=service,
        version=HEELER_VERSION,
        description=f"Heeler {service}",
        metadata={"process": process_name()},
        stats_handler=stats,
    )
    registered = MicroService(client, config)
    try:
        await registered.start()
    except FlushTimeoutError:  # the subscriptions stand, and a lost connection sends them again
        log.warning("nats is slow to confirm that %s is there", service)
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
