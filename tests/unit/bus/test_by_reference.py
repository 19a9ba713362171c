"""What is published of a large event: small fields as they are, large ones as references."""

from __future__ import annotations

import json
from typing import Any

import pytest

from libs.bus.large_events import EVENT_BYTES_MAX, published_payload
from libs.eventstore.ports import StoredEvent
from tests.contract.ledger import AT


def stored(payload: dict[str, Any]) -> StoredEvent:
    text = json.dumps(payload)
    return StoredEvent("a", 1, "account.opened", 1, "org-1", "a", text, {}, AT, position=7)


def reference(field: str, size: int) -> dict[str, Any]:
    return {
        "$ref": {"log": "ledger.event_log", "position": 7, "field": field, "bytes": size},
    }


def test_an_event_of_ordinary_size_is_published_to_the_byte() -> None:
    event = stored({"owner": "Ada", "n": [1e308, 1.0]})
    assert published_payload("ledger", event) == (event.payload_json.encode(), [])


def test_only_as_many_fields_as_must_be_are_references_the_largest_first() -> None:
    fields = {"a": "x" * 300_000, "b": "y" * 200_000, "c": 5, "d": "z" * 400_000}
    payload, referred = published_payload("ledger", stored(fields))
    assert referred == ["d"]
    assert json.loads(payload) == {**fields, "d": reference("d", 400_002)}
    assert list(json.loads(payload)) == list(fields), "in the order in which they were"


def test_numbers_beside_a_reference_keep_their_form() -> None:
    payload, _ = published_payload("ledger", stored({"a": "x" * EVENT_BYTES_MAX, "n": [1e308, 1]}))
    assert len(payload) < 200
    assert repr(json.loads(payload)["n"]) == repr([1e308, 1])


@pytest.mark.parametrize("bytes_max", [100, 100_000])
def test_what_is_still_too_large_is_one_reference(bytes_max: int) -> None:
    event = stored({f"field-{number}": "x" for number in range(10_000)})
    payload, referred = published_payload("ledger", event, bytes_max)
    assert referred == ["*"]
    assert json.loads(payload) == {
        "$ref": {"log": "ledger.event_log", "position": 7, "bytes": len(event.payload_json)}
    }
