"""The context and the log columns of a message as NATS headers, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

from libs.bus.ports import REQUEST_SECONDS_MAX, IncomingCommand
from libs.contracts.bus_messages import DEFAULT_ORG, Context
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore.ports import StoredEvent

REPLY_TO = "heeler-reply-to"
TRACEPARENT = "traceparent"
RESENT = "heeler-resent"
FINGERPRINT = "heeler-fingerprint"
BY_REFERENCE = "heeler-by-reference"  # the fields of an event that are references
WAITED = "heeler-waited"  # seconds since the command was sent for the first time
WAITED_SECONDS_MAX = 86_400.0
SECONDS_LEFT = "heeler-seconds-left"  # how long the sender goes on waiting
ORIGIN = "heeler-origin"  # of a delta: the process that delivers it within itself
SCHEMA_VERSION = "heeler-schema-version"  # of a command: only where it is not the first
# JetStream forgets a message after so many seconds, counted by its own clock.
TIME_TO_LIVE = "Nats-TTL"
# A token that takes the place of all that JetStream keeps of its subject.
LAST_OF_SUBJECT = {"Nats-Rollup": "sub", TIME_TO_LIVE: "1s"}


class HeaderLines(str):
    """Headers that are written already: the value of the first, and the lines of the others. To
    have nats-py clean one after the other costs three times as much."""

    __slots__ = ()

    def strip(self, _chars: str | None = None, /) -> str:
        """Return it as it is: it needs no cleaning."""
        return self

    def translate(self, _table: object, /) -> str:
        """The same: the line breaks are meant."""
        return self


def encoded_headers(sent: dict[str, str]) -> dict[str, str]:
    """The same headers as one. Where a value has a line break it is left to nats-py, which takes it
    out."""
    if not "".join(sent.values()).isprintable():
        return sent
    lines = "\r\n".join([f"{name}: {value}" for name, value in sent.items()])
    first, _, rest = lines.partition(": ")
    return {first: HeaderLines(rest)}


def of_command(command: IncomingCommand, reply_to: str) -> dict[str, str]:
    """The headers of a command."""
    context = command.context
    sent = {
        "ce-id": context.message_id,
        "ce-type": command.name,
        "ce-subject": command.subject.rpartition(".")[2],
        "heeler-org": context.org,
        "heeler-actor": context.actor,
        "correlation-id": context.correlation_id,
        "causation-id": context.causation_id,
        REPLY_TO: reply_to,
    }
    if context.traceparent:
        sent[TRACEPARENT] = context.traceparent
    if context.fingerprint:
        sent[FINGERPRINT] = context.fingerprint
    if command.schema_version > 1:
        sent[SCHEMA_VERSION] = str(command.schema_version)
    return sent


def schema_version(headers: Mapping[str, str]) -> int:
    """Which version of its class wrote a command."""
    version = headers.get(SCHEMA_VERSION, "")
    return int(version) if version.isdecimal() else 1


def context_of(headers: Mapping[str, str], stamp: str, stored_at: datetime) -> Context:
    """The context of a command, from its headers. Without an id it gets one from its stamp: what
    only this message has in its stream. `stored_at` is when this copy of it reached the stream."""
    return Context(
        message_id=headers.get("ce-id") or derived_id("message", stamp),
        org=headers.get("heeler-org", DEFAULT_ORG),
        actor=headers.get("heeler-actor", ""),
        correlation_id=headers.get("correlation-id", ""),
        causation_id=headers.get("causation-id", ""),
        traceparent=headers.get(TRACEPARENT, ""),
        sent_at=(stored_at - waiting_time(headers)).isoformat(),
        fingerprint=headers.get(FINGERPRINT, ""),
    )


def waiting_time(headers: Mapping[str, str]) -> timedelta:
    """The time that the sender had been sending the command already."""
    return timedelta(seconds=seconds_in(headers, WAITED, 0.0))


def seconds_left(headers: Mapping[str, str]) -> float:
    """The seconds that the sender went on waiting when it sent this."""
    return seconds_in(headers, SECONDS_LEFT, REQUEST_SECONDS_MAX)


def seconds_in(headers: Mapping[str, str], name: str, usual: float) -> float:
    """The seconds that a header names; what is usual where it names none, as somebody else's."""
    try:
        seconds = float(headers.get(name, usual))
    except ValueError:
        return usual
    return seconds if 0 <= seconds <= WAITED_SECONDS_MAX else usual


def waiting(sent: dict[str, str], waited_seconds: float, seconds_max: float) -> None:
    """Say in the headers of a command how long its sender has waited, and how long it will."""
    left = max(seconds_max - waited_seconds, 0.0)
    sent[WAITED] = f"{waited_seconds:.6f}"
    sent[SECONDS_LEFT] = f"{left:.6f}"
    sent[TIME_TO_LIVE] = str(math.ceil(left) + 1)


def of_event(service: str, event: StoredEvent) -> dict[str, str]:
    """The headers of an event. The id is what JetStream deduplicates by."""
    identity = f"{event.aggregate_id}.{event.version}"
    sent = {
        "Nats-Msg-Id": identity,
        "ce-id": identity,
        "ce-type": f"{service}.{event.topic}",
        "ce-source": service,
        "ce-subject": event.about,
        "ce-time": event.occurred_at.isoformat(),
        "correlation-id": str(event.metadata.get("correlation_id", "")),
        "causation-id": str(event.metadata.get("command_id", "")),
        "heeler-actor": str(event.metadata.get("actor", "")),
        "heeler-org": event.org,
        "heeler-position": str(event.position),
        "heeler-aggregate": event.aggregate_id,
        "heeler-version": str(event.version),
        SCHEMA_VERSION: str(event.schema_version),
    }
    if TRACEPARENT in event.metadata:
        sent[TRACEPARENT] = str(event.metadata[TRACEPARENT])
    return sent
