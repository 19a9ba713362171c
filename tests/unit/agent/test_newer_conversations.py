"""Conversations with events that only newer processes can read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.bus_messages import NewerVersion
from libs.eventstore.ports import History
from tests.unit.agent.model_replies import words
from tests.unit.agent.world import CONVERSATION, Process, World


def knows_no_replies(process: Process) -> Process:
    """The process is older: it does not know that runs can be accepted as they are."""
    load = process.store.load

    async def older(aggregate_id: str, after: int = 0, *, state_version: str = "") -> History:
        history = await load(aggregate_id, after, state_version=state_version)
        events = [
            replace(event, topic="run.foretold") if event.topic == "run.accepted" else event
            for event in history.events
        ]
        return History(history.snapshot, events)

    process.store.load = older  # type: ignore[method-assign]
    return process


async def orphaned(world: World) -> None:
    """A run that nobody drives any more."""
    await world.agent()
    first = world.process("p-1")
    first.drivers.begin = lambda *_: None  # type: ignore[method-assign]
    await first.say("run-1")
    world.lease_expires()


async def test_a_run_is_left_to_a_newer_process_and_not_swept_up_again_at_once(
    world: World,
) -> None:
    await orphaned(world)
    older = knows_no_replies(world.process("p-2"))
    takes: list[str] = []
    take_lease = older.store.take_lease

    async def counted(key: str) -> Any:
        takes.append(key)
        return await take_lease(key)

    older.store.take_lease = counted  # type: ignore[method-assign]
    for _ in range(5):
        await older.drivers.sweep()
        await older.idle()
    assert takes == [CONVERSATION]
    assert world.lease_is_free()
    assert world.schema.rows("attempts") == []
    assert world.schema.rows("dead_letters") == []

    newer = world.process("p-3", words())
    await newer.drivers.sweep()
    await newer.idle()
    assert world.row("runs", "run-1")["status"] == "completed"


async def test_an_older_process_looks_again_after_a_while(world: World) -> None:
    await orphaned(world)
    older = knows_no_replies(world.process("p-2"))
    for _ in range(2):
        await older.drivers.sweep()
        await older.idle()
        assert older.drivers.are_left() == [CONVERSATION]
        world.lease_expires()
        assert older.drivers.are_left() == []


async def test_a_message_to_such_a_conversation_is_refused_by_nobody(
    world: World,
) -> None:
    await orphaned(world)
    older = knows_no_replies(world.process("p-2"))
    with pytest.raises(NewerVersion):
        await older.say("run-2")
    newer = world.process("p-3", words(), words())
    await newer.say("run-2")
    await newer.drivers.sweep()
    await newer.idle()
    assert world.row("runs", "run-2")["status"] == "completed"
