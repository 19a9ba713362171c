"""Histories as lines of an agent file, each in parts that one command takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic_core import to_json

from libs.contracts.bus_messages import Event

EVENTS_MAX = 500
BYTES_MAX = 512 << 10


@dataclass(frozen=True, slots=True)
class EncodedHistory:
    """A `HistoryPart` as it is written: its JSON is put together from that of its events, since
    there are very many of them."""

    line: bytes
    kind: Literal["history"] = "history"


class History:
    """The events of one aggregate, from `version` on; those that were taken are forgotten."""

    def __init__(
        self, service: Literal["agent", "memory"], aggregate_id: str, version: int = 0
    ) -> None:
        self.service: Literal["agent", "memory"] = service
        self.id = aggregate_id
        self.version = version
        self.taken = version
        self.events: list[str] = []
        self.bytes = 0

    def add(self, kind: type[Event], at: datetime, **fields: object) -> None:
        """Let an event have happened. Raises ValidationError where it cannot."""
        self.version += 1
        event = kind.model_validate(
            {
                **fields,
                "originator_id": self.id,
                "originator_version": self.version,
                "timestamp": at,
            }
        )
        past = (
            f'{{"topic":"{kind.topic}","schema_version":{kind.schema_version},'
            f'"payload":{event.payload_json()},"occurred_at":"{at.isoformat()}"}}'
        )
        self.events.append(past)
        self.bytes += len(past)

    def is_full(self) -> bool:
        """Whether as many events wait as belong into one part."""
        return len(self.events) >= EVENTS_MAX or self.bytes >= BYTES_MAX

    def take(self, *, complete: bool) -> Iterator[EncodedHistory]:
        """The events that wait, as a part; none where nothing waits."""
        if not self.events:
            return
        line = (
            f'{{"kind":"history","service":"{self.service}","history":{{'
            f'"aggregate_id":{to_json(self.id).decode()},"first_version":{self.taken + 1},'
            f'"complete":{"true" if complete else "false"},"events":[{",".join(self.events)}]}}}}'
        )
        yield EncodedHistory(line.encode())
        self.taken, self.events, self.bytes = self.version, [], 0
