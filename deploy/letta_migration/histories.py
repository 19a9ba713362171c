"""Histories as lines of an agent file, each in parts that one command takes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic_core import to_json

from libs.contracts.agent_file import HistoryPart
from libs.contracts.appended_histories import PastEvent, PastHistory
from libs.contracts.bus_messages import LOG_COLUMNS, Event

EVENTS_MAX = 500
BYTES_MAX = 512 << 10


class History:
    """The events of one aggregate, from `version` on; those that were taken are forgotten."""

    def __init__(
        self, service: Literal["agent", "memory"], aggregate_id: str, version: int = 0
    ) -> None:
        self.service: Literal["agent", "memory"] = service
        self.id = aggregate_id
        self.version = version
        self.taken = version
        self.events: list[PastEvent] = []
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
        payload = event.model_dump(mode="json", exclude=LOG_COLUMNS)
        self.events.append(
            PastEvent.model_construct(
                topic=kind.topic,
                schema_version=kind.schema_version,
                payload=payload,
                occurred_at=at,
            )
        )
        self.bytes += len(to_json(payload))

    def is_full(self) -> bool:
        """Whether as many events wait as belong into one part."""
        return len(self.events) >= EVENTS_MAX or self.bytes >= BYTES_MAX

    def take(self, *, complete: bool) -> Iterator[HistoryPart]:
        """The events that wait, as a part; none where nothing waits."""
        if not self.events:
            return
        yield HistoryPart.model_construct(
            kind="history",
            service=self.service,
            history=PastHistory.model_construct(
                aggregate_id=self.id,
                first_version=self.taken + 1,
                complete=complete,
                events=tuple(self.events),
            ),
        )
        self.taken, self.events, self.bytes = self.version, [], 0
