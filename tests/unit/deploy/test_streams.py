"""What the bus may hold is bounded, and NATS has room for just that."""

from __future__ import annotations

from nats.js.api import DiscardPolicy

from libs.bus.jetstream import stream_config
from libs.contracts.stream_definitions import COMMANDS_STREAM, store_bytes_max, streams


def test_every_stream_is_bounded() -> None:
    for spec in streams():
        assert 0 < spec.bytes_max <= 1 << 30, spec.name
        assert spec.age_seconds_max > 0, spec.name


def test_the_store_has_room_for_all_streams_at_once() -> None:
    for in_memory in (False, True):
        held = sum(spec.bytes_max for spec in streams() if spec.in_memory == in_memory)
        assert held < store_bytes_max(in_memory=in_memory) <= 5 << 30


def test_a_full_queue_of_commands_refuses_and_full_events_forget_the_oldest() -> None:
    discards = {spec.name: stream_config(spec).discard for spec in streams()}
    assert discards.pop(COMMANDS_STREAM) == DiscardPolicy.NEW
    assert set(discards.values()) == {DiscardPolicy.OLD}
