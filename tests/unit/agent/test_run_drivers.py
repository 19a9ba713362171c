"""Runs on the twins: driven to their end, whatever happens to the process that drives them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from libs.bus.ports import fresh_ids
from libs.bus.suspect_quarantine import Quarantine
from libs.contracts.agent.agents import DeleteAgent
from libs.contracts.agent.conversations import ToolCall
from libs.contracts.agent.runs import CancelRuns
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.bus_messages import Accepted, Context, Rejected
from libs.eventstore.failed_messages.ports import Attempt
from libs.eventstore.ports import (
    Commit,
    Fence,
    History,
    StaleLease,
    StoreRefused,
    VersionConflict,
)
from libs.work.attempt_counts import ATTEMPTS_MAX, RETRY_DELAY_SECONDS, AttemptCount
from services.agent.adapters.models.ports import ModelFailed
from services.agent.adapters.telemetry import RunSpans
from services.agent.domain.agents.agent import Agent
from services.agent.domain.conversations.active_run import INTERRUPTED
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.run_requests import Terms, accept, cancel
from services.agent.domain.runs.step_results import Failure, ModelReply
from services.agent.engine.attempt_limits import FAILURES_MAX, attempt_point
from services.agent.engine.run_attempt import RunAttempt
from services.agent.engine.run_scheduling import RunEngine
from tests.contract.examples import AGENT
from tests.unit.agent.driven_runs import ACCEPTED, KEEP, TEA, WORDS, frozen, with_block
from tests.unit.agent.model_replies import calls, words
from tests.unit.agent.world import CONVERSATION, Process, World
from tests.unit.given import NOW
from tests.waiting import wait_for

CALLS = ["model.replied", "message.appended", "tool_call.started"]
RESULT = ["tool_call.finished", "message.appended"]


async def driven(process: Process, conversation: Conversation) -> Attempt:
    """A drive by a process of its own, which dies."""
    ports = replace(process.drivers.ports, quarantine=Quarantine())
    return await AttemptCount(ports).begin(attempt_point(conversation))


class TestTurns:
    async def test_a_message_is_answered_and_everybody_is_told(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words())
        await world.hear(process, "run-1")
        reply = await process.say("run-1")
        assert reply == Accepted(result={"run_id": "run-1", "request_hash": "hash of run-1"})
        await process.idle()
        assert world.story() == [*ACCEPTED, *WORDS]
        row = world.row("runs", "run-1")
        assert (row["status"], row["stop_reason"]) == ("completed", "end_turn")
        assert row["usage"]["total_tokens"] == 12
        said, end = world.deltas["run-1"]
        assert (said["number"], said["message"]["content"]) == (2, "Hello")
        assert (end["number"], end["end"]["status"], end["end"]["usage"]) == (
            3,
            "completed",
            row["usage"],
        )
        assert world.lease_is_free()
        assert all(
            stored.metadata["actor"] == "user-1"
            for stored in world.schema.streams[CONVERSATION][1:]
        )

    async def test_a_question_about_a_turn_that_has_ended_meanwhile_is_not_asked(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("p-1")
        agent = await process.repository.load(Agent, AGENT, org="org-1")
        conversation = await process.repository.load(Conversation, CONVERSATION, org="org-1")
        assert agent.design is not None
        asked = process.start_run("run-1")
        assert (
            accept(
                conversation, asked, Terms(agent.design.config.agent_type, []), asked_at=NOW, at=NOW
            )
            is None
        )
        fresh = process.drivers.look(agent.design, conversation)
        message_ids = fresh_ids(world.ids, "message")
        cancel(conversation, CancelRuns(agent_id=AGENT), message_ids=message_ids, at=NOW)
        with pytest.raises(VersionConflict):
            await fresh.question

    async def test_a_tool_call_takes_effect_and_the_model_sees_it(self, world: World) -> None:
        await with_block(world)
        process = world.process("p-1", calls(TEA), words())
        await world.hear(process, "run-1")
        await process.say("run-1")
        await process.idle()
        assert world.story() == [
            *ACCEPTED,
            *CALLS,
            *RESULT,
            "system_prompt.rebuilt",
            *WORDS,
        ]
        second = process.model.asked[1]
        assert [message.role for message in second.messages] == [
            "system",
            "user",
            "assistant",
            "tool",
        ]
        assert second.messages[-1].content == "Name: Ada\nLikes tea"
        assert "Likes tea" in str(second.messages[0].content), "the prompt shows the edit"
        assert [delta["number"] for delta in world.deltas["run-1"]] == [2, 3, 4, 5]
        assert [
            delta["message"]["message_type"]
            for delta in world.deltas["run-1"]
            if "message" in delta
        ] == ["tool_call_message", "tool_return_message", "assistant_message"]
        [block] = world.database.schema("memory").rows("blocks")
        assert block["fields"]["value"] == "Name: Ada\nLikes tea"

    async def test_messages_that_wait_are_answered_in_order(self, world: World) -> None:
        await world.agent()
        stand_still, reached, let_go = frozen()
        process = world.process("p-1", stand_still, words("two"), words("three"))
        for run_id in ("run-1", "run-2", "run-3"):
            await process.say(run_id)
        await reached.wait()
        assert world.row("runs", "run-2")["status"] == "created"
        let_go.set()
        await process.idle()
        ended = [event.run_id for event in world.events() if event.topic == "run.completed"]  # type: ignore[attr-defined]
        assert ended == ["run-1", "run-2", "run-3"]
        assert [len(request.messages) for request in process.model.asked] == [2, 4, 6]
        assert world.lease_is_free()

    async def test_a_model_that_fails_ends_the_run_and_not_the_conversation(
        self, world: World
    ) -> None:
        await world.agent()
        failed = ModelFailed(Failure("llm_rate_limit", "429", "slow down"))
        process = world.process("p-1", failed, words())
        await world.hear(process, "run-1")
        await process.say("run-1")
        await process.idle()
        row = world.row("runs", "run-1")
        assert (row["status"], row["stop_reason"]) == ("failed", "llm_api_error")
        error = {"error_type": "llm_rate_limit", "message": "429", "detail": "slow down"}
        assert row["error"] == error
        [end] = world.deltas["run-1"]
        assert (end["number"], end["end"]["status"], end["end"]["error"]) == (2, "failed", error)
        await process.say("run-2")
        await process.idle()
        assert world.row("runs", "run-2")["status"] == "completed"

    async def test_calls_that_may_not_be_parallel_come_one_per_step(self, world: World) -> None:
        await world.agent(parallel=False)
        process = world.process("p-1", calls(KEEP, TEA), words())
        world.build_tool(process)
        await process.say("run-1")
        await process.idle()
        assert world.story() == [*ACCEPTED, *CALLS, *RESULT, *WORDS]
        assert world.tool_runs == ["p-1 call_2"]

    async def test_the_run_ends_when_its_steps_are_used_up(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", calls(KEEP), calls(KEEP))
        world.build_tool(process)
        await process.say("run-1", max_steps=2)
        await process.idle()
        assert world.row("runs", "run-1")["stop_reason"] == "max_steps"
        assert len(world.tool_runs) == 2


class TestRetries:
    async def test_a_retried_request_attaches_to_the_run_that_it_started(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("p-1", words())
        await process.say("run-1", request_hash="h")
        again = await process.say("run-2", request_hash="h", retry=True)
        assert again == Accepted(result={"run_id": "run-1", "request_hash": "h"})
        await process.idle()
        assert world.story().count("run.accepted") == 1

    async def test_a_retry_finds_its_run_however_wrong_the_clock_of_the_agent_service_is(
        self, world: World
    ) -> None:
        """Found by the simulator: two hours of skew made a second run of a retry."""
        await world.agent()
        process = world.process("p-1", words())
        await process.say("run-1", request_hash="h")
        world.clock.seconds += 7_200
        again = await process.say("run-2", request_hash="h", retry=True)
        assert again == Accepted(result={"run_id": "run-1", "request_hash": "h"})
        await process.idle()

    async def test_of_a_first_try_and_its_retry_at_the_same_moment_one_runs(
        self, world: World
    ) -> None:
        """Seed 942 of the simulator: the retry looked, the first try was accepted, the retry was
        decided on a conversation that had it."""
        await world.agent()
        stand_still, reached, let_go = frozen()
        process = world.process("p-1", stand_still, words())
        look = world.queries.latest_run

        async def look_and_be_overtaken(*asked: Any) -> str | None:
            found = await look(*asked)
            world.queries.latest_run = look  # type: ignore[method-assign]
            await process.say("run-1", request_hash="h", seconds_ago=1)
            await reached.wait()
            return found

        world.queries.latest_run = look_and_be_overtaken  # type: ignore[method-assign]
        retry = await process.say("run-2", request_hash="h", retry=True)
        assert retry == Accepted(result={"run_id": "run-1", "request_hash": "h"})
        let_go.set()
        await process.idle()
        assert world.story().count("run.accepted") == 1

    async def test_a_retry_does_not_mean_a_run_that_began_before_its_first_try(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("p-1", words(), words())
        await process.say("run-1", request_hash="h")
        await process.idle()
        again = await process.say("run-2", request_hash="h", retry=True, earlier_runs=["run-1"])
        assert again == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        await process.idle()
        once_more = await process.say("run-3", request_hash="h", retry=True, earlier_runs=["run-1"])
        assert once_more == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        assert world.story().count("run.accepted") == 2

    async def test_a_retry_of_what_never_arrived_starts_a_run(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words(), words())
        await process.say("run-1", request_hash="other")
        again = await process.say("run-2", request_hash="h", retry=True)
        assert again == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        await process.idle()

    async def test_a_first_try_that_comes_after_its_retry_is_answered_by_it(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("p-1", words())
        await process.say("run-2", request_hash="h", retry=True)
        await process.idle()
        late = await process.say("run-1", request_hash="h", seconds_ago=1)
        assert late == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        assert world.story() == [*ACCEPTED, *WORDS]

    async def test_which_try_is_the_later_one_does_not_hang_on_the_clocks_of_two_apis(
        self, world: World
    ) -> None:
        """Seed 882 of the simulator: the retry went to an api whose clock was behind."""
        await world.agent()
        process = world.process("p-1", words(), words())
        first = process.start_run("run-1", request_hash="h")
        retry = process.start_run("run-2", request_hash="h", seconds_ago=150, retry=True)
        sent_at = [(NOW + timedelta(seconds=15 * number)).isoformat() for number in range(3)]
        await process.tell(retry, "retry", sent_at=sent_at[1])
        await process.idle()
        late = await process.tell(first, "first", sent_at=sent_at[0])
        assert late == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        new = process.start_run("run-3", request_hash="h", seconds_ago=-30)
        once_more = await process.tell(new, "new", sent_at=sent_at[2])
        assert once_more == Accepted(result={"run_id": "run-3", "request_hash": "h"})
        await process.idle()

    async def test_the_same_message_sent_once_more_is_a_new_one(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words(), words())
        await process.say("run-1", request_hash="h", seconds_ago=1, retry=True)
        again = await process.say("run-2", request_hash="h")
        assert again == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        await process.idle()

    async def test_an_equal_message_much_later_is_a_new_one(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words(), words())
        await process.say("run-1", request_hash="h", seconds_ago=601)
        await process.idle()
        again = await process.say("run-2", request_hash="h", retry=True)
        assert again == Accepted(result={"run_id": "run-2", "request_hash": "h"})
        await process.idle()

    async def test_a_command_that_comes_twice_starts_one_run(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words())
        assert await process.say("run-1") == await process.say("run-1")
        await process.idle()
        assert world.story() == [*ACCEPTED, *WORDS]

    async def test_an_agent_that_is_not_there_is_told_nothing(self, world: World) -> None:
        process = world.process("p-1")
        refused = Rejected(code="not_found", reason=f"Agent with ID {AGENT} not found")
        assert await process.say("run-1") == refused
        assert world.schema.committed == []


class TestTakeOver:
    async def test_a_second_driver_finishes_and_the_first_abandons_silently(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        await world.agent()
        stand_still, reached, let_go = frozen()
        first = world.process("p-1", stand_still)
        second = world.process("p-2", words("mine"))
        await world.hear(second, "run-1")
        await first.say("run-1")
        await reached.wait()
        await second.drivers.sweep()
        assert not second.drivers.tasks, "a live lease is left alone"
        world.lease_expires()
        await second.drivers.sweep()
        await second.idle()
        before = world.story()
        let_go.set()
        with caplog.at_level(logging.WARNING):
            await first.idle()
        assert world.story() == before == [*ACCEPTED, *WORDS]
        assert [delta["number"] for delta in world.deltas["run-1"]] == [2, 3]
        assert caplog.records == []
        assert world.lease_is_free()

    async def test_who_stood_still_leaves_the_next_run_to_who_began_it_here(
        self, world: World
    ) -> None:
        await world.agent()
        stand_still, reached, _ = frozen()
        still, begun, finish = frozen()
        first = world.process("p-1", stand_still, still)
        second = world.process("p-2", words("mine"))
        await first.say("run-1")
        await reached.wait()
        [stale] = first.drivers.attempts.values()
        world.lease_expires()
        await second.drivers.sweep()
        await second.idle()
        await first.say("run-2")
        await begun.wait()
        stale.interrupt(["run-1"])
        await asyncio.sleep(0)
        with pytest.raises(StaleLease):
            await stale.act()
        finish.set()
        await first.idle()
        assert world.row("runs", "run-2")["status"] == "completed"
        assert world.lease_is_free()

    async def test_a_tool_that_may_not_run_twice_is_interrupted(self, world: World) -> None:
        await world.agent()
        stand_still, reached, let_go = frozen()
        first = world.process("p-1", calls(KEEP, TEA))
        world.build_tool(first, stand_still)
        second = world.process("p-2", words("It may have failed."))
        world.build_tool(second)
        await first.say("run-1")
        await reached.wait()
        world.lease_expires()
        await second.drivers.sweep()
        await second.idle()
        let_go.set()
        await first.idle()
        assert world.tool_runs == ["p-1 call_2"]
        assert world.story() == [
            *ACCEPTED,
            *CALLS,
            "tool_call.interrupted",
            "message.appended",
            "tool_call.started",
            *RESULT,
            *WORDS,
        ]
        [asked] = second.model.asked
        [_, _, called, told, other] = asked.messages
        assert [call.id for call in called.tool_calls] == ["call_2", "call_1"]
        assert (told.tool_call_id, told.content, told.tool_status) == (
            "call_2",
            INTERRUPTED,
            "error",
        )
        assert other.tool_call_id == "call_1"

    async def test_a_tool_that_may_run_twice_is_run_again_and_takes_effect_once(
        self, world: World
    ) -> None:
        await with_block(world)
        stand_still, reached, let_go = frozen()
        first = world.process("p-1", calls(TEA))
        ran = first.memory_tools.runners["memory_insert"]

        async def run_and_stand_still(calling: Any) -> Any:
            result = await ran(calling)
            await stand_still()
            return result

        first.memory_tools.runners["memory_insert"] = run_and_stand_still
        second = world.process("p-2", words())
        await first.say("run-1")
        await reached.wait()
        world.lease_expires()
        await second.drivers.sweep()
        await second.idle()
        let_go.set()
        await first.idle()
        assert second.model.asked[0].messages[-1].content == "Name: Ada\nLikes tea"
        [block] = world.database.schema("memory").rows("blocks")
        assert block["fields"]["value"] == "Name: Ada\nLikes tea"

    async def test_a_finished_step_is_never_asked_of_the_model_again(self, world: World) -> None:
        """Also where the one that takes over has an older copy of the conversation at hand."""
        await world.agent()
        stand_still, reached, let_go = frozen()
        slow, slow_reached, slow_let_go = frozen()
        first = world.process("p-1", stand_still, calls(KEEP), slow)
        world.build_tool(first)
        second = world.process("p-2", words("two"), words("three"))
        await first.say("run-1")
        await reached.wait()
        await second.say("run-2")  # the second one's copy stands before the first step
        let_go.set()
        await slow_reached.wait()  # the first step of run-2 is recorded, its second is asked
        world.lease_expires()
        await second.drivers.sweep()
        await second.idle()
        slow_let_go.set()
        await first.idle()
        replied = [event.step_id for event in world.events() if isinstance(event, ModelReplied)]
        assert len(replied) == len(set(replied)) == 3
        assert len(second.model.asked) == 1
        assert world.row("runs", "run-2")["status"] == "completed"

    async def test_a_turn_that_somebody_else_finished_leaves_the_lease_free(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("p-1", words(), words())
        epoch = await process.store.take_lease(CONVERSATION)
        process.drivers.begin(CONVERSATION, epoch, Context("sweep-1", org="org-1"))
        await process.idle()
        assert world.lease_is_free()
        await process.say("run-1")
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "completed"

    async def test_a_run_that_is_accepted_while_the_lease_is_let_go_is_driven(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.agent()
        process = world.process("p-1", words())
        commit = process.store.commit

        async def somebody_is_first(asked: Commit) -> int | None:
            monkeypatch.setattr(process.store, "commit", commit)
            assert isinstance(await process.say("run-1"), Accepted)
            return await commit(asked)

        epoch = await process.store.take_lease(CONVERSATION)
        monkeypatch.setattr(process.store, "commit", somebody_is_first)
        process.drivers.begin(CONVERSATION, epoch, Context("sweep-1", org="org-1"))
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "completed"
        assert world.lease_is_free()

    async def test_a_bug_leaves_the_turn_to_the_sweeper(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        await world.agent()
        process = world.process("p-1", ZeroDivisionError("a bug"), words())
        await process.say("run-1")
        await process.idle()
        [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert CONVERSATION in record.getMessage()
        assert world.lease_is_free()
        await process.store.renew_leases()
        await process.drivers.sweep()
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "completed"

    async def test_a_turn_that_keeps_failing_is_given_up_and_the_next_one_works(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        await world.agent()
        bugs = [ZeroDivisionError("a bug") for _ in range(FAILURES_MAX)]
        process = world.process("p-1", *bugs, words())
        await process.say("run-1")
        await process.say("run-2")
        await process.idle()
        for _ in range(FAILURES_MAX):
            await process.drivers.sweep()
            await process.idle()
        failed = world.row("runs", "run-1")
        assert (failed["status"], failed["stop_reason"]) == ("failed", "error")
        assert failed["error"]["error_type"] == "internal_error"
        assert "given up" in failed["error"]["message"]
        assert world.row("runs", "run-2")["status"] == "completed"
        assert (
            len([record for record in caplog.records if record.levelno == logging.ERROR])
            == FAILURES_MAX
        )
        assert world.lease_is_free()

    async def test_a_run_that_fails_before_anything_is_done_is_given_up_too(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.agent()
        process = world.process("p-1")

        async def broken(*_: object) -> None:
            raise ZeroDivisionError("a bug")

        monkeypatch.setattr(RunSpans, "follow", broken)
        await process.say("run-1")
        for _ in range(FAILURES_MAX):
            await process.idle()
            await process.drivers.sweep()
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "failed"
        [letter] = world.schema.rows("dead_letters")
        assert letter["attempts"] == FAILURES_MAX

    async def test_a_run_that_is_cancelled_while_it_fails_does_not_end_the_next_one(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.agent()
        process, other = world.process("p-1", words("a"), words("b")), world.process("p-2")
        commit, refusals = process.store.commit, iter([StoreRefused("never", by_data=True)])

        async def refused(saved: Commit) -> int | None:
            if any(event.topic == "model.replied" for event in saved.events):
                for refusal in refusals:
                    command = CancelRuns(agent_id=AGENT, run_ids=["run-1"])
                    assert isinstance(await other.tell(command, "cancel"), Accepted)
                    raise refusal
            return await commit(saved)

        monkeypatch.setattr(process.store, "commit", refused)
        await process.say("run-1")
        await process.say("run-2")
        await process.idle()
        await process.drivers.sweep()
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "cancelled"
        assert world.row("runs", "run-2")["status"] == "completed"
        assert world.schema.rows("dead_letters") == []

    async def test_a_run_that_is_cancelled_while_it_is_given_up_does_not_end_the_next_one(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.agent()
        bugs = [ZeroDivisionError("a bug") for _ in range(FAILURES_MAX)]
        process = world.process("p-1", *bugs, words())
        locks, count, waits = process.drivers.ports.locks, process.store.letters.record_failure, []

        async def cancel(held: asyncio.Event) -> None:
            async with locks.hold(CONVERSATION):
                held.set()
                await wait_for("the attempt waits", lambda: locks.queues[CONVERSATION].first)
                command = CancelRuns(agent_id=AGENT, run_ids=["run-1"])
                assert isinstance(await process.tell(command, "cancel"), Accepted)

        async def counted(point: str, number: int, hold_seconds: float) -> Attempt:
            attempt = await count(point, number, hold_seconds)
            if attempt.number == FAILURES_MAX:
                held = asyncio.Event()
                waits.append(asyncio.create_task(cancel(held)))
                await held.wait()
            return attempt

        monkeypatch.setattr(process.store.letters, "record_failure", counted)
        await process.say("run-1")
        await process.say("run-2")
        await process.idle()
        for _ in range(FAILURES_MAX):
            await process.drivers.sweep()
            await process.idle()
        await asyncio.gather(*waits)
        await process.drivers.sweep()
        await process.idle()
        assert world.row("runs", "run-1")["status"] == "cancelled"
        assert world.row("runs", "run-2")["status"] == "completed"
        assert world.schema.rows("dead_letters") == []

    async def test_a_run_that_is_given_up_leaves_a_dead_letter(self, world: World) -> None:
        await world.agent()
        bugs = [ZeroDivisionError("a bug") for _ in range(FAILURES_MAX)]
        for number, bug in enumerate(bugs):
            process = world.process(f"p-{number}", bug)
            if number == 0:
                await process.say("run-1")
            await process.drivers.sweep()
            await process.idle()
        [letter] = world.schema.rows("dead_letters")
        assert (letter["kind"], letter["name"]) == ("run", "agent.run.failed")
        assert (letter["message_id"], letter["org"]) == ("run-1", "org-1")
        assert letter["payload"] == {
            "run_id": "run-1",
            "agent_id": AGENT,
            "conversation_id": CONVERSATION,
            "steps": 0,
        }
        assert letter["attempts"] == FAILURES_MAX
        assert letter["error_class"] == "ZeroDivisionError"
        assert "in ask_model" in str(letter["error_text"])
        assert str(letter["id"]) in world.row("runs", "run-1")["error"]["message"]

    async def test_a_run_that_ends_its_drivers_is_given_up_whoever_drives(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("p-0", words("two"))
        for number in range(1, ATTEMPTS_MAX + 1):
            stand_still, reached, _ = frozen()
            victim = world.process(f"p-{number}", stand_still)
            if number == 1:
                await victim.say("run-1")
                await victim.say("run-2")
            await victim.drivers.sweep()
            await reached.wait()
            world.lease_expires()
        await process.drivers.sweep()
        await process.idle()
        [letter] = world.schema.rows("dead_letters")
        assert (letter["message_id"], letter["error_class"]) == ("run-1", "ProcessDied")
        assert world.row("runs", "run-1")["status"] == "failed"
        assert world.row("runs", "run-2")["status"] == "completed"
        assert world.lease_is_free()

    async def test_a_turn_that_ends_its_drivers_rests_between_them(self, world: World) -> None:
        """A process that it kills as soon as it is back would never be there for the others."""
        await world.agent()
        stand_still, reached, _ = frozen()
        process = world.process("p-1", stand_still)
        await process.say("run-1")
        await reached.wait()
        conversation = await process.repository.load(Conversation, CONVERSATION, org="org-1")
        drives = [await driven(process, conversation) for _ in range(2)]
        while len(drives) < 8:
            drives.append(await driven(process, conversation))
            world.clock.seconds += drives[-1].wait_seconds
        told = [(drive.number, drive.wait_seconds) for drive in drives]
        delays = (0, RETRY_DELAY_SECONDS)
        assert told == [(2, 0), (3, 0), delays, (4, 0), delays, (5, 0), delays, (6, 0)]

    @pytest.mark.parametrize("drives", [3, ATTEMPTS_MAX])
    async def test_a_run_that_is_cancelled_while_it_rests_ends_and_the_next_one_goes_on(
        self, world: World, monkeypatch: pytest.MonkeyPatch, drives: int
    ) -> None:
        await world.agent()
        stand_still, reached, _ = frozen()
        victim = world.process("p-1", stand_still)
        await victim.say("run-1")
        await victim.say("run-2")
        await reached.wait()
        conversation = await victim.repository.load(Conversation, CONVERSATION, org="org-1")
        while (await driven(victim, conversation)).number < drives:
            world.clock.seconds += RETRY_DELAY_SECONDS
        next_process = world.process("p-2", words("two"))
        resting, rested = asyncio.Event(), asyncio.Event()

        async def rest(seconds: float) -> None:
            resting.set()
            await rested.wait()
            world.clock.seconds += seconds

        await next_process.store.letters.hold(attempt_point(conversation), 60.0)
        world.lease_expires()
        monkeypatch.setattr(world.clock, "sleep", rest)
        await next_process.drivers.sweep()
        await resting.wait()
        asked = CancelRuns(agent_id=AGENT, run_ids=["run-1"])
        assert await next_process.tell(asked, "stop") == Accepted(result={"run-1": "cancelled"})
        rested.set()
        await next_process.idle()
        assert world.row("runs", "run-1")["status"] == "cancelled"
        assert world.row("runs", "run-2")["status"] == "completed"
        assert world.schema.rows("dead_letters") == []
        assert world.lease_is_free()

    async def test_drives_are_counted_anew_when_a_turn_gets_on(self, world: World) -> None:
        await world.agent()
        first = world.process("p-1", ZeroDivisionError("a bug"))
        await first.say("run-1")
        await first.idle()
        for number in range(4):
            step = calls(ToolCall(id=f"call_{number}", name="memory_insert", arguments="{"))
            process = world.process(f"p-2{number}", step, ZeroDivisionError("a bug"))
            await process.drivers.sweep()
            await process.idle()
        last = world.process("p-3", words())
        await last.drivers.sweep()
        await last.idle()
        assert world.row("runs", "run-1")["status"] == "completed"
        assert world.schema.rows("dead_letters") == []

    async def test_stopping_a_process_does_not_count_against_its_turns(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(RunEngine, "drain_seconds_max", 0.0)
        await world.agent()
        for number in range(3 * ATTEMPTS_MAX):
            stand_still, reached, _ = frozen()
            process = world.process(f"p-{number}", stand_still)
            if number == 0:
                await process.say("run-1")
            await process.drivers.sweep()
            await reached.wait()
            await process.drivers.drain()
        last = world.process("p-last", words())
        await last.drivers.sweep()
        await last.idle()
        assert world.row("runs", "run-1")["status"] == "completed"

    async def test_a_process_that_stops_gives_its_turns_back_at_once(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(RunEngine, "drain_seconds_max", 0.0)
        await world.agent()
        stand_still, reached, _ = frozen()
        first = world.process("p-1", stand_still)
        await first.say("run-1")
        await reached.wait()
        await first.drivers.drain()
        second = world.process("p-2", words())
        await second.drivers.sweep()
        await second.idle()
        assert world.story() == [*ACCEPTED, *WORDS]
        await first.drivers.sweep()
        assert not first.drivers.tasks

    async def test_a_lost_lease_ends_the_drive(self, world: World) -> None:
        await world.agent()
        stand_still, reached, _ = frozen()
        process = world.process("p-1", stand_still)
        await process.say("run-1")
        await reached.wait()
        for held in ({CONVERSATION}, set[str](), {CONVERSATION}, set[str]()):
            process.drivers.leases_held(held)
            await asyncio.sleep(0)
            assert process.drivers.tasks, "once missing may be given back just now"
        process.drivers.leases_held(set())
        await process.idle()
        assert world.story() == ACCEPTED


class TestConflicts:
    async def test_a_message_that_arrives_in_mid_turn_loses_nothing(self, world: World) -> None:
        await world.agent()

        async def somebody_writes() -> ModelReply:
            assert isinstance(await process.say("run-2"), Accepted)
            return words("one")

        process = world.process("p-1")
        process.model.turns = [somebody_writes, words("two")]
        await process.say("run-1")
        await process.idle()
        assert world.story() == [
            *ACCEPTED,
            "run.accepted",
            *WORDS,
            "run.started",
            "message.appended",
            *WORDS,
        ]
        said = [message.content for message in process.model.asked[1].messages]
        assert said[1:] == ["Hi", "one", "Hi"]

    async def test_an_agent_that_is_deleted_in_mid_turn_leaves_nothing(self, world: World) -> None:
        await world.agent()

        async def somebody_deletes() -> ModelReply:
            assert await process.tell(DeleteAgent(agent_id=AGENT), "delete") == Accepted()
            return calls(KEEP)

        process = world.process("p-1")
        process.model.turns = [somebody_deletes]
        world.build_tool(process)
        await process.say("run-1")
        await process.say("run-2")
        await process.idle()
        assert world.story()[-1] == "conversation.deleted"
        for table in ("agents", "messages", "runs"):
            assert world.schema.rows(table) == []
        assert world.tool_runs == []
        assert world.lease_is_free()

    async def test_an_agent_that_is_deleted_while_a_tool_runs_leaves_nothing(
        self, world: World
    ) -> None:
        await world.agent()

        async def somebody_deletes() -> None:
            await process.tell(DeleteAgent(agent_id=AGENT), "delete")

        process = world.process("p-1", calls(KEEP, TEA))
        world.build_tool(process, somebody_deletes)
        await process.say("run-1")
        await process.idle()
        assert world.story()[-1] == "conversation.deleted"
        assert world.schema.rows("messages") == []
        assert world.lease_is_free()

    async def test_an_agent_that_is_deleted_while_a_message_comes_is_not_found(
        self, world: World
    ) -> None:
        """Seed 1345 of the simulator: the agent was read before it was deleted, the conversation
        after, and a run began that could never end."""
        await world.agent()
        process, other = world.process("p-1"), world.process("p-2")
        load = process.store.load

        async def agent_first(
            aggregate_id: str, after: int = 0, *, state_version: str = ""
        ) -> History:
            if aggregate_id == CONVERSATION:
                await other.tell(DeleteAgent(agent_id=AGENT), "delete")
            return await load(aggregate_id, after, state_version=state_version)

        process.store.load = agent_first  # type: ignore[method-assign]
        reply = await process.say("run-1")
        assert isinstance(reply, Rejected)
        assert reply.code == "not_found"
        assert world.story()[-1] == "conversation.deleted"
        assert world.schema.rows("runs") == []

    async def test_of_an_agent_that_is_deleted_after_its_driver_died_no_lease_is_left(
        self, world: World
    ) -> None:
        """Seed 23 of the simulator: nobody cleared it away, because nothing named it any more."""
        await world.agent()
        stand_still, reached, _ = frozen()
        dead = world.process("p-1", stand_still)
        await dead.say("run-1")
        await reached.wait()
        heir = world.process("p-2")
        assert await heir.tell(DeleteAgent(agent_id=AGENT), "delete") == Accepted()
        world.lease_expires()
        await heir.drivers.sweep()
        await heir.idle()
        assert CONVERSATION not in world.schema.leases


class TestUnknownOutcomes:
    STORY = [*ACCEPTED, *CALLS, *RESULT, "tool_call.started", *RESULT, *WORDS]  # noqa: RUF012

    @pytest.mark.parametrize("lost", ["lost_after", "lost_before"])
    @pytest.mark.parametrize("commits", [{1}, {2}, {3}, {4}, {1, 2, 3, 4, 5, 6, 7}])
    async def test_nothing_is_recorded_or_run_twice_and_nothing_is_left_out(
        self, world: World, lost: str, commits: set[int]
    ) -> None:
        await with_block(world)
        process = world.process("p-1", calls(KEEP, TEA), words(), words(), words())
        setattr(process.store, lost, commits)
        world.build_tool(process)
        await world.hear(process, "run-1")
        await process.say("run-1")
        await process.idle()
        story = [topic for topic in world.story() if topic != "system_prompt.rebuilt"]
        assert story == self.STORY
        assert world.tool_runs == ["p-1 call_2"]
        assert world.row("runs", "run-1")["status"] == "completed"
        assert world.lease_is_free()
        self.deltas_have_their_numbers(world)

    def deltas_have_their_numbers(self, world: World) -> None:
        """A delta may be missing; what is there has the number of its place in the rows."""
        rows = sorted(world.schema.rows("messages"), key=lambda row: row["position"])
        served = [
            v1_message
            for row in rows
            if row["run_id"] and not row["sent"]
            for v1_message in row["v1_messages"]
        ]
        assert len(served) == 4
        for delta in world.deltas["run-1"]:
            if "message" in delta:
                assert served[delta["number"] - 2] == delta["message"]
            else:
                assert delta["number"] == len(served) + 2

    async def test_a_model_is_not_asked_again_for_what_was_recorded(self, world: World) -> None:
        await world.agent()
        process = world.process("p-1", words())
        process.store.lost_after = {1}
        await process.say("run-1")
        await process.idle()
        assert len(process.model.asked) == 1
        assert process.model.turns == []


class TestLeases:
    async def test_a_lease_is_not_given_back_where_nothing_was_decided(self, world: World) -> None:
        """Another process may have begun a turn that relies on it, unseen by who holds it."""
        await world.agent()
        holder, other = world.process("a", words()), world.process("b")
        epoch = await holder.store.take_lease(CONVERSATION)
        assert epoch is not None
        ports, fence = holder.drivers.ports, Fence(CONVERSATION, epoch)
        driver = RunAttempt(ports, holder.drivers, fence, Context("m1", org="org-1"), None)
        await driver.leased.resume()
        assert driver.leased.active is None
        await other.say("run-1")
        assert other.drivers.tasks == {}, "the lease was not free"
        await driver.leased.record(lambda talk: None)
        assert world.database.schema("agent").leases[CONVERSATION].epoch == epoch
        await driver.run()
        await asyncio.gather(*holder.drivers.tasks.values())
        assert [event.topic for event in world.events()][-1] == "run.completed"

    async def test_a_turn_that_has_no_lease_is_taken_over(self, world: World) -> None:
        await world.agent()
        dying, living = world.process("a"), world.process("b", words())
        dying.drivers.stopping = True  # it accepts, and drives nothing
        await dying.say("run-1")
        del world.database.schema("agent").leases[CONVERSATION]
        await living.drivers.sweep()
        await asyncio.gather(*living.drivers.tasks.values())
        assert [event.topic for event in world.events()][-1] == "run.completed"

    async def test_who_gave_the_lease_back_leaves_the_next_turn_to_who_took_it(
        self, world: World
    ) -> None:
        await world.agent()
        process = world.process("a", words())
        await process.say("run-1")
        [first] = process.drivers.attempts.values()
        await asyncio.gather(*process.drivers.tasks.values())
        assert first.leased.released
        process.drivers.stopping = True  # nobody drives the next one here
        await process.say("run-2")
        assert await first.act() is False
        assert world.events()[-1].topic == "message.appended"
