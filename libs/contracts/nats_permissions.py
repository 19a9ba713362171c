"""Permissions on the bus: one user of NATS for each service, and three for people.

Every user has a branch of inboxes of its own, which nobody else may subscribe to. NATS refuses
everything that is not listed here; `deploy/nats_configuration.py` writes it down for the server.
"""

from __future__ import annotations

from dataclasses import dataclass

from libs.contracts.service_registry import SERVICES, Service, events_stream, names, receivers
from libs.contracts.stream_definitions import (
    COMMANDS_STREAM,
    DELIVERIES_OF_COMMANDS,
    STREAM_NAMES,
    TOKENS_STREAM,
    streams,
)

ADMIN = "heeler"  # may do everything with the streams; the migration sets them up as this user
WATCH = "watch"  # for people: hears commands, events and deltas, and changes nothing
SYSTEM = "system"  # of NATS' system account: the state of the server itself, and no message

METRICS_ASKED = "heeler.metrics.asked"
METRICS_REPORTS = "heeler.metrics"


@dataclass(frozen=True, slots=True)
class Permissions:
    """Subjects that a user may publish to and subscribe to, and whether it may answer, once, what
    it is asked there."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


NOTHING = Permissions((), ())


def inbox_prefix(user: str) -> str:
    """The branch of inboxes that belongs to a user."""
    return f"_INBOX.{user}"


def permissions() -> dict[str, Permissions]:
    """The permissions of each user that may not do everything."""
    return {**{service.name: of_service(service) for service in SERVICES}, WATCH: watch()}


def users() -> tuple[str, ...]:
    """Everybody who has a password."""
    return (ADMIN, SYSTEM, *permissions())


def of_service(service: Service) -> Permissions:
    """The permissions of every service, with additions for those that serve clients."""
    plain, more = worker(service), of_clients(service) if service.serves_clients else NOTHING
    return Permissions(
        (*plain.publish, *more.publish), (*plain.subscribe, *more.subscribe), plain.answers
    )


def worker(service: Service) -> Permissions:
    """A service takes commands, sends some, has events and hears those of others. It makes streams
    that are not there; it may change none, and delete nothing but what its own events said. The
    health check in its container asks the service for a sign of life as the same user
    (`deploy/container_health.py`)."""
    name = service.name
    askers = [
        ADMIN,
        *(each_service.name for each_service in SERVICES if name in receivers(each_service)),
    ]
    consumer = f"{COMMANDS_STREAM}.{name}"
    return Permissions(
        publish=(
            *commands_of(service),
            *(f"$JS.API.STREAM.CREATE.{spec.name}" for spec in streams()),
            STREAM_NAMES,
            f"$JS.API.STREAM.PURGE.{events_stream(name)}",
            *((f"$JS.API.STREAM.INFO.{TOKENS_STREAM}",) if service.lists_deltas else ()),
            METRICS_REPORTS,
            f"$SRV.PING.{name}",
            f"{inbox_prefix(name)}.>",
            f"{name}.event.>",
            f"{name}.delta.>",
            *(f"{inbox_prefix(asker)}.>" for asker in askers if asker != name),
            f"$JS.API.CONSUMER.CREATE.{consumer}.{name}.command.>",
            f"$JS.ACK.{consumer}.>",
        ),
        subscribe=(
            f"{inbox_prefix(name)}.>",
            DELIVERIES_OF_COMMANDS.format(service=name),
            *(f"{upstream}.event.>" for upstream in service.follows),
            *(f"{publisher}.delta.>" for publisher in service.hears),
            *(deltas_about(aggregate) for aggregate in service.hears_only),
            f"{name}.metrics",
            METRICS_ASKED,
            *("$SRV.*", f"$SRV.*.{name}", f"$SRV.*.{name}.*"),
        ),
        answers=True,
    )


def commands_of(service: Service) -> tuple[str, ...]:
    """The subjects of the commands that a service sends."""
    everything = names() if service.serves_clients else service.sends
    single = (command.split(".", 1) for command in service.sends_only)
    return (
        *(f"{target}.command.>" for target in everything),
        *(f"{target}.command.{topic}.>" for target, topic in single),
    )


def deltas_about(aggregate: str) -> str:
    """The subjects of the deltas about aggregates of one kind (`<service>.<aggregate>`)."""
    service, _, kind = aggregate.partition(".")
    return f"{service}.delta.{kind}.>"


def of_clients(service: Service) -> Permissions:
    """Services of clients also hear run streams and counts, and see other processes."""
    return Permissions(
        publish=(
            *(f"$SRV.PING.{name}" for name in names() if name != service.name),
            METRICS_ASKED,
            f"$JS.API.CONSUMER.CREATE.{TOKENS_STREAM}",
            *(f"$JS.API.CONSUMER.{verb}.{TOKENS_STREAM}.>" for verb in ("CREATE", "INFO")),
            f"$JS.FC.{TOKENS_STREAM}.>",
        ),
        subscribe=(*(f"{name}.delta.>" for name in names()), METRICS_REPORTS),
    )


def watch() -> Permissions:
    """Somebody who looks on: `make watch`, `nats sub`, `nats micro ls`, `nats stream ls`."""
    looks = ("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.INFO.*")
    consumers = ("CONSUMER.NAMES.*", "CONSUMER.LIST.*", "CONSUMER.INFO.*.*")
    return Permissions(
        publish=(
            "$SRV.>",
            *(f"{name}.metrics" for name in names()),
            *(f"$JS.API.{each}" for each in (*looks, *consumers)),
        ),
        subscribe=("*.command.>", "*.event.>", "*.delta.>", f"{inbox_prefix(WATCH)}.>"),
    )
