"""Replays of runs in memory: the same transcript, other models, live tools, crashes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.agent.agents import UpdateAgent
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.run_replays import ORGANISATION_OPEN_REPLAYS_MAX, ReplayRun
from libs.contracts.bus_messages import BUSY, CONFLICT, NOT_FOUND, UNPROCESSABLE, Rejected
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.replays.recorded_calls import NOT_RECORDED
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine import recorded_history, replay_attempt
from tests.contract.examples import AGENT, LLM
from tests.leased_work import finish, sweep
from tests.unit.agent import in_memory_replay_queries
from tests.unit.agent.driven_runs import KEEP, TEA, with_block
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.replayed_runs import RUNS, replay_runs
from tests.unit.agent.world import Process, World

RUN = "run-1"
AGAIN = ToolCall(id="call_9", name=TEA.name, arguments='{"new_string":"Likes tea","label":"human"}')


@pytest.fixture
async def world() -> World:
    world = World()
    await world.start_memory()
    await with_block(world)
    return world


async def ran(world: World, *turns: Any) -> Process:
    """A process that has answered one message."""
    process = world.process("one", *turns)
    world.build_tool(process)
    await process.say(RUN)
    await process.idle()
    return process


async def replay(process: Process, *turns: Any, **fields: Any) -> Any:
    """What comes of a replay of the run, by a model that answers so."""
    process.model.turns = list(turns)
    command = ReplayRun(**{"replay_id": "replay-1", "run_id": RUN, **fields})
    reply = await process.tell(command, command.replay_id)
    await finish(process.handlers.replays.replays)
    return reply


def row(world: World, replay_id: str = "replay-1") -> Any:
    return world.row("run_replays", replay_id)


def steps(world: World) -> list[Any]:
    found = world.schema.rows("run_replay_steps")
    return sorted(found, key=lambda step: step["number"])


async def test_random_runs_have_the_same_transcript_when_they_are_replayed() -> None:
    happened = await replay_runs(RUNS)
    assert happened["run.accepted"] >= RUNS
    for topic in ("tool_call.finished", "conversation.compacted", "run.failed"):
        assert happened[topic], f"no {topic}"


async def test_calls_are_answered_by_name_and_arguments_in_any_order_of_them(world: World) -> None:
    process = await ran(world, calls(TEA, KEEP), words())
    ran_before = list(world.tool_runs)
    await replay(process, calls(KEEP), calls(AGAIN), calls(KEEP), words())
    assert [step["answers"][0]["source"] for step in steps(world)[:3]] == [
        *("recorded", "recorded", "not_recorded"),
    ]
    [returned] = steps(world)[2]["replayed"]["messages"][1:]
    assert returned["tool_return"] == NOT_RECORDED
    assert world.tool_runs == ran_before
    assert (row(world)["fields"]["same"], row(world)["fields"]["first_difference"]) == (False, 1)


async def test_a_prompt_of_then_is_shown_as_long_as_the_calls_are_the_same(world: World) -> None:
    process = await ran(world, calls(TEA), words())
    process.model.asked.clear()
    await replay(process, calls(TEA), words("other words"))
    assert "Likes tea" in str(process.model.asked[1].messages[0].content)
    assert row(world)["fields"]["notes"] == []
    await replay(process, calls(KEEP), words(), replay_id="replay-2")
    assert "Likes tea" not in str(process.model.asked[3].messages[0].content)
    [note] = row(world, "replay-2")["fields"]["notes"]
    assert note.startswith("step 2")


async def test_another_model_is_asked_with_its_own_config(world: World) -> None:
    process = await ran(world, words())
    await replay(process, words("mine"), model=LLM.handle)
    assert process.model.asked[-1].config.llm_config == LLM
    assert row(world)["fields"]["model"] == LLM.handle
    assert steps(world)[0]["differences"] == [{"message": 0, "fields": ["content"]}]


async def test_a_run_whose_model_failed_is_replayed_to_its_failure(world: World) -> None:
    failed = ModelFailed(Failure("llm_rate_limit", "slow down"))
    process = await ran(world, calls(TEA), failed)
    await replay(process, calls(TEA), failed)
    fields = row(world)["fields"]
    assert fields["same"]
    assert fields["recorded"] == {**fields["replayed"], "usage": fields["recorded"]["usage"]}
    assert fields["recorded"]["error"]["error_type"] == "llm_rate_limit"
    await replay(process, words(), from_step=2, replay_id="replay-2")
    assert row(world, "replay-2")["fields"]["replayed"]["stop_reason"] == "end_turn"
    assert not row(world, "replay-2")["fields"]["same"]


class TestRefusals:
    async def test_what_needs_an_approval_by_now_is_not_run(self, world: World) -> None:
        process = await ran(world, calls(KEEP), words())
        rules = [{"type": "requires_approval", "tool_name": KEEP.name}]
        update = UpdateAgent(agent_id=AGENT, request={"tool_rules": rules})
        assert not isinstance(await process.tell(update, "update"), Rejected)
        refused = await replay(process, mode="live")
        assert (refused.code, KEEP.name in refused.reason) == (CONFLICT, True)

    async def test_a_run_that_is_not_there_is_named(self, world: World) -> None:
        process = await ran(world, words())
        refused = await replay(process, run_id="run-9")
        assert (refused.code, "run-9" in refused.reason) == (NOT_FOUND, True)

    async def test_a_run_that_goes_on_is_a_conflict(self, world: World) -> None:
        held = asyncio.Event()

        async def wait() -> ModelReply:
            await held.wait()
            return words()

        process = world.process("one", wait)
        await process.say(RUN)
        refused = await replay_while_it_runs(process)
        assert refused.code == CONFLICT
        held.set()
        await process.idle()

    async def test_a_step_that_the_run_did_not_reach_is_refused(self, world: World) -> None:
        process = await ran(world, words())
        for first in (2, 3):
            refused = await replay(process, from_step=first)
            assert (refused.code, "from_step" in refused.reason) == (UNPROCESSABLE, True)
        assert world.schema.rows("run_replays") == []

    async def test_an_organisation_has_so_many_at_once(self, world: World) -> None:
        process = await ran(world, words())
        process.handlers.replays.replays.stopping = True
        for number in range(ORGANISATION_OPEN_REPLAYS_MAX):
            command = ReplayRun(replay_id=f"replay-{number}", run_id=RUN)
            assert not isinstance(await process.tell(command, command.replay_id), Rejected)
        refused = await replay(process, replay_id="replay-x")
        assert refused.code == BUSY


async def replay_while_it_runs(process: Process) -> Any:
    """The reply to a replay, without touching what the model is to say."""
    command = ReplayRun(replay_id="replay-1", run_id=RUN)
    return await process.tell(command, command.replay_id)


class TestLive:
    async def test_tools_of_the_agents_memory_are_answered_from_the_log(self, world: World) -> None:
        process = await ran(world, calls(KEEP), words())
        before = list(world.tool_runs)
        await replay(process, calls(KEEP), words(), mode="live")
        [answer] = steps(world)[0]["answers"]
        assert (answer["source"], "does not run it" in answer["note"]) == ("recorded", True)
        assert world.tool_runs == before

    async def test_a_tool_that_changes_nothing_is_called(self, world: World) -> None:
        said = ToolCall(id="call_5", name="memory_finish_edits", arguments="{}")
        process = await ran(world, calls(said), words())
        await replay(process, calls(said), words(), mode="live")
        assert [answer["source"] for answer in steps(world)[0]["answers"]] == ["live"]

    async def test_a_tool_that_needs_an_approval_by_now_is_not_called(self, world: World) -> None:
        process = await ran(world, words())
        name = "memory_finish_edits"
        rules = [{"type": "requires_approval", "tool_name": name}]
        update = UpdateAgent(agent_id=AGENT, request={"tool_rules": rules})
        assert not isinstance(await process.tell(update, "update"), Rejected)
        said = ToolCall(id="call_5", name=name, arguments="{}")
        await replay(process, calls(said), words(), mode="live")
        [answer] = steps(world)[0]["answers"]
        assert (answer["source"], "needs an approval" in answer["note"]) == ("not_recorded", True)

    async def test_a_call_that_another_attempt_began_is_not_made_twice(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process = await ran(world, calls(KEEP), words())
        monkeypatch.setattr(replay_attempt, "why_not_live", lambda *_: "")
        begun, made = asyncio.Event(), list(world.tool_runs)

        async def never_ends() -> None:
            begun.set()
            await asyncio.Event().wait()

        world.build_tool(process, never_ends)
        process.model.turns = [calls(KEEP)]
        command = ReplayRun(replay_id="replay-1", run_id=RUN, mode="live")
        await process.tell(command, command.replay_id)
        await begun.wait()
        await process.handlers.replays.replays.drain()
        other = world.process("two", words())
        world.build_tool(other)
        await sweep(other.handlers.replays.replays)
        assert world.tool_runs == [*made, "one call_2"]
        [_, returned] = steps(world)[0]["replayed"]["messages"]
        assert "interrupted" in returned["tool_return"]
        assert row(world)["status"] == "completed"


class TestHistories:
    async def test_of_an_agent_that_came_later_its_first_configuration_is_shown(
        self, world: World
    ) -> None:
        process = await ran(world, words())
        stream = world.schema.streams[AGENT]
        world.schema.streams[AGENT] = [
            replace(stored, commit_order=stored.commit_order + 1_000) for stored in stream
        ]
        await replay(process, words())
        assert row(world)["fields"]["same"]
        [note] = row(world)["fields"]["notes"]
        assert "first known" in note

    async def test_of_an_agent_that_was_imported_the_times_tell_how_it_was(
        self, world: World
    ) -> None:
        process = await ran(world, words())
        asked = process.model.asked[-1]
        world.clock.seconds += 60
        update = UpdateAgent(agent_id=AGENT, request={"parallel_tool_calls": False})
        assert not isinstance(await process.tell(update, "update"), Rejected)
        stream = world.schema.streams[AGENT]
        world.schema.streams[AGENT] = [
            replace(
                stored,
                commit_order=stored.commit_order + 1_000,
                metadata={**stored.metadata, "import": "import-1"},
            )
            for stored in stream
        ]
        await replay(process, words())
        assert process.model.asked[-1].config == asked.config
        assert row(world)["fields"]["notes"] == []

    async def test_a_long_history_is_read_in_pages(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process = await ran(world, calls(TEA), words())
        for module in (recorded_history, in_memory_replay_queries):
            monkeypatch.setattr(module, "HISTORY_PAGE_EVENTS_MAX", 1)
        await replay(process, calls(TEA), words())
        assert row(world)["fields"]["same"]


class TestCrashes:
    async def test_what_a_model_has_answered_is_not_asked_again(self, world: World) -> None:
        process = await ran(world, calls(TEA), words())
        dying = asyncio.Event()

        async def die() -> ModelReply:
            dying.set()
            await asyncio.Event().wait()
            return words()

        process.model.turns = [calls(TEA), die]
        command = ReplayRun(replay_id="replay-1", run_id=RUN)
        await process.tell(command, command.replay_id)
        await dying.wait()
        await process.handlers.replays.replays.drain()
        other = world.process("two", words())
        await sweep(other.handlers.replays.replays)
        assert len(other.model.asked) == 1
        assert row(world)["status"] == "completed"
        assert row(world)["fields"]["same"]
        assert [step["number"] for step in steps(world)] == [1, 2]

    @pytest.mark.parametrize("lost", ["lost_before", "lost_after"])
    async def test_a_lost_answer_of_the_store_neither_ends_nor_doubles_it(
        self, world: World, lost: str
    ) -> None:
        process = await ran(world, calls(TEA), words())
        process.store.fenced = 0
        getattr(process.store, lost).update({1, 2})
        answers = [calls(TEA), words()] * 3
        await replay(process, *answers)
        for _ in range(3):
            world.lease_expires()
            await sweep(process.handlers.replays.replays)
        assert row(world)["fields"]["same"], row(world)
        assert [step["number"] for step in steps(world)] == [1, 2]

    async def test_a_replay_that_is_late_or_large_says_so(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        process = await ran(world, calls(TEA), words())
        monkeypatch.setattr(replay_attempt, "REPLAY_BYTES_MAX", 10)
        await replay(process, calls(TEA), words())
        assert row(world)["status"] == "failed"
        assert "bytes" in row(world)["error"]["message"]
        monkeypatch.undo()

        async def late() -> ModelReply:
            world.clock.seconds += 10_000
            return replace(calls(TEA))

        await replay(process, late, words(), replay_id="replay-2")
        assert "HEELER_RUN_SECONDS_MAX" in row(world, "replay-2")["error"]["message"]
