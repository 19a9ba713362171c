"""The JetStream streams and consumers, declared once; every service makes sure that they exist."""

from __future__ import annotations

from dataclasses import dataclass

SERVICES = ("agent", "memory")

COMMANDS_STREAM = "COMMANDS"
COMMAND_AGE_SECONDS_MAX = 3_600
COMMAND_ACK_WAIT_SECONDS = 10
COMMANDS_UNACKED_MAX = 1_024

EVENT_AGE_SECONDS_MAX = 7 * 86_400
EVENT_STREAM_BYTES_MAX = 1 << 30
EVENT_DEDUPLICATION_SECONDS = 120

DELIVERIES_OF_COMMANDS = "deliver.{service}.commands"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream: what it holds and for how long."""

    name: str
    subjects: tuple[str, ...]
    work_queue: bool
    age_seconds_max: int
    bytes_max: int = -1


def streams() -> tuple[StreamSpec, ...]:
    """One work queue for all commands, one stream of events for each service."""
    commands = StreamSpec(
        COMMANDS_STREAM,
        tuple(f"{service}.command.>" for service in SERVICES),
        work_queue=True,
        age_seconds_max=COMMAND_AGE_SECONDS_MAX,
    )
    events = (
        StreamSpec(
            events_stream(service),
            (f"{service}.event.>",),
            work_queue=False,
            age_seconds_max=EVENT_AGE_SECONDS_MAX,
            bytes_max=EVENT_STREAM_BYTES_MAX,
        )
        for service in SERVICES
    )
    return (commands, *events)


def events_stream(service: str) -> str:
    """The name of a service's event stream."""
    return f"EVENTS_{service.upper()}"
