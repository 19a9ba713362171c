"""What states the same events make, as files: who changes that has to raise `state_revision`.

Each file holds a history as it was stored once, and behind each event those fields of the state
that it changed. `state_version` says which form and meaning of the state that was.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import Event
from libs.eventstore.event_decoding import replay
from libs.eventstore.ports import History, StoredEvent
from tests.contract.histories import HISTORIES, numbered, state_of

FOLDER = Path(__file__).parent
Recorded = dict[str, Any]


def path_of(name: str) -> Path:
    """The file of a history."""
    return FOLDER / f"{name}.json"


def row_of(event: Event) -> Recorded:
    """An event as the log holds it."""
    return {
        "service": event.service,
        "topic": event.topic,
        "schema_version": event.schema_version,
        "at": event.timestamp.isoformat(),
        "payload": json.loads(event.payload_json()),
    }


def recorded(name: str) -> Recorded:
    """What the file of a history should say, with the events and the code of today."""
    kind, events = HISTORIES[name]
    rows = [row_of(event) for event in numbered(events)]
    made = [{**row, "makes": change} for row, change in zip(rows, changes(kind, rows), strict=True)]
    return {"state_version": kind.state_version(), "events": made}


def changes(kind: type[Aggregate[Any]], rows: list[Recorded]) -> Iterator[Recorded]:
    """The fields of the state that each event of a history changes, under the code of today."""
    aggregate = kind.blank("recorded")
    before: Recorded = {}
    for version, row in enumerate(rows, start=1):
        stored = StoredEvent(
            aggregate.id,
            version,
            row["topic"],
            row["schema_version"],
            "org-1",
            aggregate.id,
            json.dumps(row["payload"]),
            {},
            datetime.fromisoformat(row["at"]),
        )
        aggregate = replay(
            row["service"], kind, aggregate.id, History(None, [stored]), base=aggregate
        )
        after = state_of(aggregate)
        yield {field: value for field, value in after.items() if before.get(field) != value}
        before = after


def meaning_changed(name: str, file: Recorded) -> bool:
    """Whether the code of today, which says that it means the same, makes another state of the
    events of a file."""
    kind, _ = HISTORIES[name]
    if file["state_version"] != kind.state_version():
        return False
    makes = [row["makes"] for row in file["events"]]
    return makes != [*changes(kind, file["events"])]


def text_of(file: Recorded) -> str:
    """A file as it is written."""
    return json.dumps(file, indent=1, ensure_ascii=False) + "\n"
