"""What followers of a run are told, and what they are told to read instead."""

from __future__ import annotations

import json
from typing import Any

from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.contracts.agent.conversations import Message, MessageAppended, Usage
from libs.contracts.agent.runs import RunFailed
from libs.contracts.bus_messages import delta_subject
from services.agent.engine.run_stream import DELTA_BYTES_MAX, RunStreamPublisher
from tests.contract.examples import AGENT, CONVERSATION, RUN
from tests.unit.given import NOW

LARGE = "x" * DELTA_BYTES_MAX


class StreamedChunk:
    """A publisher, and what a follower of the run hears."""

    def __init__(self) -> None:
        self.bus = InMemoryBus(InMemoryNetwork())
        self.heard: list[dict[str, Any]] = []
        self.publisher = RunStreamPublisher(self.bus, "org-1")

    async def begin(self) -> RunStreamPublisher:
        subject = delta_subject("agent", "run", "*", "org-1", RUN)
        await self.bus.subscribe_deltas(
            subject, lambda _, told: self.heard.append(json.loads(told))
        )
        return self.publisher

    def hear(self, _: str, payload: bytes) -> None:
        self.heard.append(json.loads(payload))


def said(text: str, number: int) -> MessageAppended:
    message = Message(id="message-1", role="assistant", content=text, created_at=NOW)
    return MessageAppended(
        originator_id=CONVERSATION,
        originator_version=7,
        timestamp=NOW,
        agent_id=AGENT,
        message=message,
        run_id=RUN,
        sent=False,
        number=number,
    )


async def test_a_message_that_the_bus_cannot_carry_is_read_from_the_rows() -> None:
    """It was dropped in silence, and its followers waited until they looked by themselves."""
    told = StreamedChunk()
    publisher = await told.begin()
    await publisher.publish_event(said("Hello", 2))
    await publisher.publish_event(said(LARGE, 3))
    await publisher.publish_event(said("Bye", 4))
    first, second, third = told.heard
    assert (first["number"], first["message"]["content"]) == (2, "Hello")
    assert second == {"look": 3}
    assert (third["number"], third["after"]) == (4, 3)


async def test_a_piece_that_the_bus_cannot_carry_leaves_a_gap_that_can_be_seen() -> None:
    told = StreamedChunk()
    publisher = await told.begin()
    await publisher.chunk(RUN, {"content": LARGE})
    await publisher.chunk(RUN, {"content": "rest"})
    look, delta = told.heard
    assert look == {"look": 2}
    assert (delta["after"], delta["number"], delta["chunk"]) == (2, 3, {"content": "rest"})


async def test_an_end_that_the_bus_cannot_carry_is_read_from_the_rows() -> None:
    told = StreamedChunk()
    publisher = await told.begin()
    await publisher.publish_event(said("Hello", 2))
    await publisher.publish_event(
        RunFailed(
            originator_id=CONVERSATION,
            originator_version=8,
            timestamp=NOW,
            run_id=RUN,
            stop_reason="llm_api_error",
            error_type="llm_error",
            message=LARGE,
            detail=None,
            usage=Usage(),
            step_count=1,
            total_duration_ns=1,
        )
    )
    assert told.heard[1:] == [{"look": 3}]
