"""Who may say and hear what on the bus: one user of NATS for each service, and three for people.

Every user has a branch of inboxes of its own, which nobody else may subscribe to. NATS refuses
everything that is not listed here; `deploy/nats_configuration.py` writes it down for the server.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from libs.contracts.streams import (
    COMMANDS_STREAM,
    DELIVERIES_OF_COMMANDS,
    SERVICES,
    TOKENS_STREAM,
    streams,
)

ADMIN = "heeler"  # may do everything with the streams; the migration sets them up as this user
WATCH = "watch"  # for people: hears commands, events and deltas, and changes nothing
SYSTEM = "system"  # of NATS' system account: the state of the server itself, and no message

METRICS_REPORTS = "heeler.metrics"
# Whose commands each service sends, and whose events it hears.
SENDS = {"api": ("agent", "memory"), "agent": ("agent", "memory"), "memory": ("memory",)}
HEARS = {"agent": ("agent", "memory"), "memory": ("agent",)}


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects that a user may publish to and subscribe to, and whether it may answer, once, what
    it is asked there."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


def inbox_prefix(user: str) -> str:
    """The branch of inboxes that belongs to a user."""
    return f"_INBOX.{user}"


def permissions() -> dict[str, Permissions]:
    """What each user may do that may not do everything."""
    workers = {service: worker(service) for service in SERVICES}
    return {"api": api(), **workers, WATCH: watch()}


def users() -> tuple[str, ...]:
    """Everybody who has a password."""
    return (ADMIN, SYSTEM, *permissions())


def worker(service: str) -> Permissions:
    """A service that takes commands and has events."""
    askers = [ADMIN, *(name for name, targets in SENDS.items() if service in targets)]
    consumer = f"{COMMANDS_STREAM}.{service}"
    return Permissions(
        publish=(
            *everybody(service),
            f"{service}.event.>",
            f"{service}.delta.>",
            *(f"{inbox_prefix(asker)}.>" for asker in askers if asker != service),
            f"$JS.API.CONSUMER.CREATE.{consumer}.{service}.command.>",
            f"$JS.ACK.{consumer}.>",
        ),
        subscribe=(
            f"{inbox_prefix(service)}.>",
            DELIVERIES_OF_COMMANDS.format(service=service),
            *(f"{upstream}.event.>" for upstream in HEARS[service]),
            f"{service}.metrics",
            *("$SRV.*", f"$SRV.*.{service}", f"$SRV.*.{service}.*"),
        ),
        answers=True,
    )


def api() -> Permissions:
    """The service that clients talk to: it sends commands and shows what runs publish."""
    return Permissions(
        publish=(
            *everybody("api"),
            *(f"$SRV.PING.{service}" for service in SERVICES),
            f"$JS.API.CONSUMER.CREATE.{TOKENS_STREAM}",
            *(f"$JS.API.CONSUMER.{verb}.{TOKENS_STREAM}.>" for verb in ("CREATE", "INFO")),
            f"$JS.FC.{TOKENS_STREAM}.>",
        ),
        subscribe=(
            f"{inbox_prefix('api')}.>",
            *(f"{service}.delta.>" for service in SERVICES),
            METRICS_REPORTS,
        ),
    )


def watch() -> Permissions:
    """Somebody who looks on: `make watch`, `nats sub`, `nats micro ls`, `nats stream ls`."""
    looks = ("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.*")
    consumers = ("CONSUMER.NAMES.*", "CONSUMER.LIST.*", "CONSUMER.INFO.*.*")
    return Permissions(
        publish=(
            "$SRV.>",
            *(f"{service}.metrics" for service in SERVICES),
            *(f"$JS.API.{each}" for each in (*looks, *consumers)),
        ),
        subscribe=("*.command.>", "*.event.>", "*.delta.>", f"{inbox_prefix(WATCH)}.>"),
    )


def everybody(service: str) -> Iterable[str]:
    """What every service says: commands, what it counts, and to itself; and it makes streams that
    are not there. It may change none, and delete nothing."""
    yield from (f"{target}.command.>" for target in SENDS[service])
    yield from (f"$JS.API.STREAM.CREATE.{spec.name}" for spec in streams())
    yield METRICS_REPORTS
    yield f"{inbox_prefix(service)}.>"
