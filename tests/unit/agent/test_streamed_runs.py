"""Runs whose tokens stream, and runs that are cancelled, on the twins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from libs.contracts.agent.conversations import MessageAppended, ToolCall
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.agent.stream_chunks import NUMBERS_OF_AN_EPOCH, streamed_messages
from libs.contracts.bus_messages import Accepted, Rejected, delta_subject
from services.agent.adapters.models.ports import (
    Finished,
    ModelEvent,
    ModelFailed,
    TextDelta,
    ToolCallDelta,
)
from services.agent.domain.conversations.active_run import CANCELLED
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine.run_stream import OrphanedChunks
from tests.contract.examples import AGENT
from tests.unit.agent.model_replies import USAGE
from tests.unit.agent.speaking_models import SpeakingModel, speaking
from tests.unit.agent.world import ASK, World
from tests.waiting import wait_for

KEEP = ToolCall(id="call_2", name=ASK, arguments='{"content":"tea"}')
CANCEL = CancelRuns(agent_id=AGENT)


def words(text: str) -> list[ModelEvent]:
    """A text in pieces of three characters."""
    pieces = [TextDelta(text[n : n + 3]) for n in range(0, len(text), 3)]
    return [*pieces, Finished(ModelReply(text, [], "stop", USAGE))]


def keeping() -> list[ModelEvent]:
    """A tool call in pieces."""
    half = len(KEEP.arguments) // 2
    return [
        ToolCallDelta(KEEP.id, KEEP.name),
        ToolCallDelta(KEEP.id, None, KEEP.arguments[:half]),
        ToolCallDelta(KEEP.id, None, KEEP.arguments[half:]),
        Finished(ModelReply("", [KEEP], "tool_calls", USAGE)),
    ]


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    await world.agent()
    return world


def heard(world: World, run_id: str = "run-1") -> list[tuple[int, int]]:
    """The numbers that were told, and which number each comes after."""
    deltas = world.deltas[run_id]
    return [(delta["after"], delta["number"]) for delta in deltas if "number" in delta]


@pytest.mark.parametrize("pieces_max", [1, 2, 4, 5])
async def test_what_comes_after_very_many_pieces_is_told_at_the_end(
    world: World, pieces_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.agent.engine.model_step.CHUNKS_MAX", pieces_max)
    text = "All of this is kept, however small the pieces are."
    answer = [TextDelta("Well. "), *keeping()[:-1]]
    call = Finished(ModelReply("Well. ", [KEEP], "tool_calls", USAGE))
    process = speaking(world, "p-1", [*answer, call], words(text))
    world.build_tool(process)
    await world.hear(process, "run-1")
    await process.say("run-1", stream_tokens=True)
    await process.idle()

    kept = [event for event in world.events()
            if isinstance(event, MessageAppended) and event.chunks is not None]  # fmt: skip
    assert [event.message.content for event in kept] == ["Well. ", text]
    assert max(len(event.chunks or []) for event in kept) <= pieces_max + 3
    told_again: list[Any] = []
    for event in kept:
        told_again += streamed_messages(
            world.row("messages", event.message.id)["v1_messages"], event.chunks
        )  # type: ignore[arg-type]
    pieces = [delta["chunk"] for delta in world.deltas["run-1"] if "chunk" in delta]
    assert pieces == told_again
    said = "".join(
        chunk["content"] for chunk in pieces if chunk["message_type"] == "assistant_message"
    )
    assert said == f"Well. {text}"


async def test_pieces_are_told_as_they_come_and_kept_with_the_message(world: World) -> None:
    process = speaking(world, "p-1", keeping(), words("All kept."))
    world.build_tool(process)
    await world.hear(process, "run-1")
    await process.say("run-1", stream_tokens=True)
    await process.idle()

    assert heard(world) == [(n, n + 1) for n in range(1, 9)]
    pieces = [delta["chunk"] for delta in world.deltas["run-1"] if "chunk" in delta]
    assert [chunk["message_type"] for chunk in pieces] == ["tool_call_message"] * 3 + [
        "assistant_message"
    ] * 3
    assert "".join(chunk["content"] for chunk in pieces[3:]) == "All kept."
    told_again: list[Any] = []
    for event in world.events():
        if isinstance(event, MessageAppended) and event.run_id and not event.sent:
            row = world.row("messages", event.message.id)
            told_again += streamed_messages(row["v1_messages"], event.chunks)  # type: ignore[arg-type]
    live = [delta.get("chunk") or delta["message"] for delta in world.deltas["run-1"][:-1]
            if "look" not in delta]  # fmt: skip
    assert live == told_again
    assert world.row("runs", "run-1")["status"] == "completed"


async def test_a_take_over_in_mid_stream_begins_a_new_message_with_later_numbers(
    world: World,
) -> None:
    standing = asyncio.Event()
    first = speaking(world, "p-1", [TextDelta("I was"), TextDelta(" going"), standing])
    second = speaking(world, "p-2", words("Hello"))
    await world.hear(second, "run-1")
    await first.say("run-1", stream_tokens=True)
    await wait_for("two pieces", lambda: len(world.deltas["run-1"]) == 2)
    world.lease_expires()
    await second.drivers.sweep()
    await second.idle()
    standing.set()
    await first.idle()

    jumped = 2 * NUMBERS_OF_AN_EPOCH
    assert heard(world) == [(1, 2), (2, 3), (1, jumped + 1), (jumped + 1, jumped + 2),
                            (jumped + 2, jumped + 3)]  # fmt: skip
    ids = [delta["chunk"]["id"] for delta in world.deltas["run-1"] if "chunk" in delta]
    assert ids[0] == ids[1] != ids[2] == ids[3]
    [row] = [row for row in world.schema.rows("messages") if row["role"] == "assistant"]
    assert (row["id"], row["text"], row["number"]) == (ids[2], "Hello", jumped + 1)


async def test_a_model_that_fails_in_mid_stream_leaves_nothing_but_the_reason(
    world: World,
) -> None:
    late = ModelFailed(Failure("llm_timeout", "It took too long"))
    process = speaking(world, "p-1", [TextDelta("I was"), late])
    await world.hear(process, "run-1")
    await process.say("run-1", stream_tokens=True)
    await process.idle()
    *_, end, dropped = world.deltas["run-1"]
    assert (end["after"], end["number"], end["end"]["error"]["error_type"]) == (2, 3, "llm_timeout")
    assert dropped == {"look": 3}, "it takes the place of what the bus has kept"
    assert [row["role"] for row in world.schema.rows("messages")] == ["system", "user"]


async def test_chunks_that_a_dead_process_left_are_dropped(world: World) -> None:
    process = speaking(world, "p-1", [TextDelta("Hel"), asyncio.Event()])
    await process.say("run-1", stream_tokens=True)
    tokens = delta_subject("agent", "run", "token", "org-1", "run-1")
    await wait_for("chunks to be kept", lambda: world.network.tokens.get(tokens))
    ended = delta_subject("agent", "run", "token", "org-1", "run-of-a-dead-process")
    await process.bus.publish_delta(ended, b"{}")
    left = OrphanedChunks(process.bus, world.queries, world.clock)
    await left.sweep()
    assert list(world.network.tokens) == [tokens], "whose run goes on may be asked for"
    await process.bus.publish_delta(ended, b"{}")
    await left.sweep()
    assert ended in world.network.tokens, "it looks now and then only"
    world.clock.seconds += 61
    await left.sweep()
    assert list(world.network.tokens) == [tokens]
    await process.tell(CANCEL, "cancel")
    await process.idle()


async def test_chunks_of_many_dead_runs_are_dropped_in_the_order_of_the_bus(world: World) -> None:
    process = world.process("p-1")
    runs = [f"run-{number}" for number in range(20)]
    for run_id in runs:
        tokens = delta_subject("agent", "run", "token", "org-1", run_id)
        await process.bus.publish_delta(tokens, b"{}")
    left = OrphanedChunks(process.bus, world.queries, world.clock)
    assert await left.find(None) == [("org-1", run_id) for run_id in runs], "not of a hash"


class TestCancelling:
    async def test_a_model_is_let_go_at_once_and_its_words_are_not_kept(self, world: World) -> None:
        process = speaking(world, "p-1", [TextDelta("I was"), asyncio.Event()], words("Next"))
        await world.hear(process, "run-1")
        await process.say("run-1", stream_tokens=True)
        await process.say("run-2", stream_tokens=True)
        await wait_for("a piece", lambda: world.deltas["run-1"])
        asked = CancelRuns(agent_id=AGENT, run_ids=["run-1"])
        assert await process.tell(asked, "cancel") == Accepted(result={"run-1": "cancelled"})
        await process.idle()
        assert isinstance(process.model, SpeakingModel)
        assert process.model.let_go == 1
        looks = [delta["look"] for delta in world.deltas["run-1"] if "look" in delta]
        assert 2 in looks, "what the bus has kept of it is replaced"
        assert world.row("runs", "run-1")["status"] == "cancelled"
        assert world.row("runs", "run-2")["status"] == "completed"
        spoken = [row["text"] for row in world.schema.rows("messages") if row["run_id"]]
        assert spoken == ["Hi", "Hi", "Next"]
        assert world.lease_is_free()

    async def test_a_tool_is_not_waited_for_and_its_call_has_a_result(self, world: World) -> None:
        process = speaking(world, "p-1", keeping())
        running = asyncio.Event()

        async def forever() -> None:
            running.set()
            await asyncio.Event().wait()

        world.build_tool(process, forever)
        await process.say("run-1", stream_tokens=True)
        await running.wait()
        assert await process.tell(CANCEL, "cancel") == Accepted(result={"run-1": "cancelled"})
        await process.idle()
        [row] = [row for row in world.schema.rows("messages") if row["role"] == "tool"]
        assert row["text"] == CANCELLED
        assert world.story()[-3:] == [
            "tool_call.interrupted",
            "message.appended",
            "run.cancelled",
        ]
        assert world.lease_is_free()

    async def test_another_process_cancels_what_this_one_drives(self, world: World) -> None:
        process = speaking(world, "p-1", [asyncio.Event()])
        other = speaking(world, "p-2")
        await process.say("run-1", stream_tokens=True)
        await wait_for("the model to be asked", lambda: process.model.asked)
        assert await other.tell(CANCEL, "cancel") == Accepted(result={"run-1": "cancelled"})
        process.drivers.cancelled_somewhere()
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "cancelled"
        assert world.lease_is_free()

    async def test_however_many_are_cancelled_elsewhere_few_looks_follow(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        looks = 0

        async def count(orgs: list[str], run_ids: list[str]) -> list[str]:
            nonlocal looks
            looks += 1
            await asyncio.sleep(0)
            return []

        monkeypatch.setattr(world.queries, "cancelled_runs", count)
        end = asyncio.Event()
        process = speaking(world, "p-1", [end, *words("Hi")])
        await process.say("run-1", stream_tokens=True)
        await wait_for("the model to be asked", lambda: process.model.asked)
        for _ in range(1_000):
            process.drivers.cancelled_somewhere()
        await wait_for("somebody to look", lambda: looks)
        for _ in range(1_000):
            process.drivers.cancelled_somewhere()
        end.set()
        await process.idle()
        await wait_for("nobody to look", lambda: not process.drivers.asides)
        assert 1 <= looks <= 3

    async def test_nothing_to_cancel_is_said_so(self, world: World) -> None:
        process = speaking(world, "p-1")
        assert await process.tell(CANCEL, "cancel") == Rejected(
            code="conflict", reason="No active runs to cancel"
        )
        nobody = CancelRuns(agent_id="agent-nobody")
        refused = await process.tell(nobody, "cancel-2")
        assert isinstance(refused, Rejected)
        assert refused.code == "not_found"
