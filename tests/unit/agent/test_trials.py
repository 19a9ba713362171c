"""What a provider refused is shown again by runs: in streams, and in replays."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, override

import pytest

from libs.contracts.agent.run_replays import ReplayRun
from libs.contracts.bus_messages import Accepted
from services.agent.adapters.models.ports import (
    Finished,
    ModelDelta,
    ModelFailed,
    TextDelta,
)
from services.agent.domain.prompts.model_context import ModelRequest
from services.agent.domain.runs.step_results import Failure, ModelReply
from tests.leased_work import finish
from tests.unit.agent.driven_runs import KEEP, with_block
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import FakeModel, Process, World

REFUSED = ModelFailed(Failure("llm_bad_request", "no poison"))


async def say(process: Process, number: int, text: str, *turns: Any, **fields: Any) -> None:
    """A message of a client, and what the model does then."""
    process.model.turns += turns
    assert isinstance(await process.say(f"run-{number}", text, **fields), Accepted)
    await process.idle()


def statuses(world: World) -> list[str]:
    """How the runs ended, in their order."""
    return [row["status"] for row in sorted(world.schema.rows("runs"), key=lambda row: row["id"])]


class StreamingModel(FakeModel):
    """Says each turn a piece at a time, and may fail in the middle."""

    @override
    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelDelta | Finished]:
        self.asked.append(request)
        for piece in self.turns.pop(0):
            if isinstance(piece, Exception):
                raise piece
            yield Finished(piece) if isinstance(piece, ModelReply) else TextDelta(piece)


async def streaming(world: World) -> Process:
    await world.start_memory()
    await world.agent()
    process = Process(world, "p-1", StreamingModel())
    for number in (3, 4):
        await world.hear(process, f"run-{number}")
    await say(process, 1, "poison", [REFUSED], stream_tokens=True)
    await say(process, 2, "hi", ["Hel", "lo", words("Hello")], stream_tokens=True)
    return process


async def test_a_stream_of_which_nothing_was_told_goes_on_without_what_is_refused() -> None:
    world = World()
    process = await streaming(world)
    turns: tuple[Any, ...] = ([REFUSED], ["Uno ", "dos", words("Uno dos")])
    await say(process, 3, "more", *turns, stream_tokens=True)
    assert statuses(world) == ["failed", "completed", "completed"]
    told = [delta["chunk"]["content"] for delta in world.deltas["run-3"] if "chunk" in delta]
    assert "".join(told) == "Uno dos"


async def test_a_stream_that_has_begun_is_not_begun_again() -> None:
    """Its followers would glue the second answer to the first."""
    world = World()
    process = await streaming(world)
    await say(process, 3, "more", ["One ", "two ", REFUSED], stream_tokens=True)
    assert statuses(world) == ["failed", "completed", "failed"]
    await say(process, 4, "more", ["Uno", words("Uno")], stream_tokens=True)
    assert statuses(world)[-1] == "completed"
    assert "left out here" in str(process.model.asked[-1].messages)


class StrictModel(FakeModel):
    """Refuses whatever has the word poison."""

    @override
    async def reply(self, request: ModelRequest) -> ModelReply:
        if any(message.content == "poison" for message in request.messages):
            self.asked.append(request)
            raise REFUSED
        return await super().reply(request)


@pytest.mark.parametrize("from_step", [1, 2])
async def test_a_replay_leaves_out_again_what_its_run_left_out_again(from_step: int) -> None:
    world = World()
    await world.start_memory()
    await with_block(world)
    process = Process(world, "p-1", StrictModel())
    world.build_tool(process)
    await say(process, 1, "poison")
    await say(process, 2, "go on", calls(KEEP), words())
    assert "retried_content.refused" in world.story()
    process.model.turns = [calls(KEEP), words()][from_step - 1 :]
    replay = ReplayRun(replay_id="replay-1", run_id="run-2", from_step=from_step)
    assert isinstance(await process.tell(replay, "replay-1"), Accepted)
    await finish(process.handlers.replays.replays)
    fields = world.row("run_replays", "replay-1")["fields"]
    assert fields["same"], fields
