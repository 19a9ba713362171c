"""Sleeptime groups: which end of a run makes a review due, and that each review is made once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.agent.agents import CreateAgent, DeleteAgent, UpdateAgent
from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, Accepted, Rejected
from libs.contracts.groups.groups import GroupConfig, GroupCreated
from libs.contracts.groups.sleeptime import (
    CountRun,
    EnableSleeptime,
    EndSleeptime,
    ReviewRequested,
    RunCounted,
    count_id,
    review_run,
    sleeptime_agent,
    sleeptime_agent_name,
    sleeptime_group,
)
from services.groups.domain.group import Group
from services.groups.domain.group_rules import GroupFacts, KnownAgent
from services.groups.domain.review_messages import (
    MESSAGE_CHARS_MAX,
    TRANSCRIPT_CHARS_MAX,
    review_text,
    transcript_of,
)
from services.groups.domain.sleeptime import (
    REVIEWS_WAITING_MAX,
    RunFacts,
    SaidMessage,
    count_run,
    start_review,
)
from tests.unit.given import LATER, NOW
from tests.unit.groups.sleeptime_world import ADA, AGENT, SleeptimeWorld

SLEEPER = "agent-sleeper"
GROUP = sleeptime_group(AGENT)


def group_with(**config: Any) -> Group:
    """A sleeptime group of one agent and its sleeptime agent."""
    group = Group.blank(GROUP)
    known = {"manager_type": "sleeptime", "manager_agent_id": AGENT, "agent_ids": [SLEEPER]}
    made = GroupConfig.model_validate({**known, **config})
    group.record(GroupCreated, at=NOW, config=made)
    group.collect_events()
    return group


def count(group: Group, number: int) -> dict[str, str]:
    """Count the end of one run, which said one message."""
    due = count_run(group, f"run-{number}", RunFacts(f"message-{number}"), at=LATER)
    assert isinstance(due, dict)
    return due


class TestCounting:
    @pytest.mark.parametrize(
        ("frequency", "counter", "due"),
        [
            (5, 0, [5, 10]),  # as a group that `enable_sleeptime` makes
            (5, -1, [1, 6, 11]),  # as V1 counts a group from its creation on
            (2, -1, [1, 3, 5, 7, 9, 11]),
            (1, -1, [*range(1, 13)]),
            (None, None, [*range(1, 13)]),
        ],
    )
    def test_a_review_is_due_whenever_the_counter_begins_again(
        self, frequency: int | None, counter: int | None, due: list[int]
    ) -> None:
        group = group_with(sleeptime_agent_frequency=frequency, turns_counter=counter)
        found = []
        for number in range(1, 13):
            if count(group, number):
                found.append(number)
                start_review(group, f"run-{number}", {}, at=LATER)
        assert found == due

    def test_a_review_is_of_all_that_was_said_since_the_one_before(self) -> None:
        group = group_with(sleeptime_agent_frequency=2, turns_counter=-1)
        assert count(group, 1) == {SLEEPER: review_run(GROUP, "run-1", SLEEPER)}
        assert count(group, 2) == {}
        count(group, 3)
        spans = [
            (event.review.after_message_id, event.review.last_message_id)
            for event in group.collect_events()
            if isinstance(event, ReviewRequested)
        ]
        assert spans == [(None, "message-1"), ("message-1", "message-3")]
        assert group.present is not None
        assert group.present.turns_counter == 0

    def test_a_run_is_counted_once_however_often_it_is_said(self) -> None:
        group = group_with(sleeptime_agent_frequency=1)
        due = count(group, 1)
        assert count(group, 1) == due
        assert len(group.collect_events()) == 2
        start_review(group, "run-1", {}, at=LATER)
        assert count(group, 1) == {}
        start_review(group, "run-1", {}, at=LATER)
        assert len(group.collect_events()) == 1

    def test_a_run_that_said_nothing_is_counted_and_not_reviewed(self) -> None:
        group = group_with(sleeptime_agent_frequency=1)
        assert count_run(group, "run-1", RunFacts(None), at=LATER) == {}
        assert [type(event) for event in group.collect_events()] == [RunCounted]

    def test_reviews_that_cannot_start_do_not_pile_up(self) -> None:
        group = group_with(sleeptime_agent_frequency=1)
        due = [number for number in range(1, 21) if count(group, number)]
        assert due == [*range(1, REVIEWS_WAITING_MAX + 1)]
        start_review(group, "run-1", {}, at=LATER)
        assert count(group, 21)
        assert group.state.reviews[-1].after_message_id == f"message-{REVIEWS_WAITING_MAX}"

    def test_other_groups_count_nothing(self) -> None:
        refused = count_run(
            group_with(manager_type="supervisor"), "run-1", RunFacts("message-1"), at=LATER
        )
        assert isinstance(refused, Rejected)
        assert refused.code == INVALID
        refused = count_run(Group.blank("group-2"), "run-1", RunFacts(None), at=LATER)
        assert isinstance(refused, Rejected)
        assert refused.code == NOT_FOUND

    def test_a_new_frequency_counts_from_the_next_run_on(self) -> None:
        group = group_with(sleeptime_agent_frequency=5, turns_counter=3)
        facts = GroupFacts({AGENT: KnownAgent("Ada"), SLEEPER: KnownAgent("Ada-sleeptime")})
        assert group.update({"sleeptime_agent_frequency": 3}, facts, at=LATER) is None
        assert group.present is not None
        assert group.present.turns_counter == -1
        assert count(group, 1)


class TestMessageBuffers:
    @pytest.mark.parametrize(
        ("roles", "last"),
        [
            ("uauaua", None),
            ("uauauau", 1),  # seven are more than six; five are kept
            ("uauauaua", 3),  # what stays begins with a user
            ("uaaaaaaa", 7),  # or nothing stays
        ],
    )
    def test_a_full_buffer_is_emptied_up_to_what_a_user_said(
        self, roles: str, last: int | None
    ) -> None:
        group = group_with(
            manager_type="voice_sleeptime", max_message_buffer_length=6, min_message_buffer_length=5
        )
        said = [SaidMessage(f"message-{n}", role == "u") for n, role in enumerate(roles)]
        due = count_run(group, "run-1", RunFacts("message-x", said), at=LATER)
        assert bool(due) == (last is not None)
        assert group.present is not None
        wanted = None if last is None else f"message-{last}"
        assert group.present.last_processed_message_id == wanted


class TestTranscripts:
    def test_a_line_says_who_said_what(self) -> None:
        picture = {"type": "image", "source": {}}
        messages: list[dict[str, Any]] = [
            {"message_type": "user_message", "content": "I live\nin Bern"},
            {"message_type": "user_message", "name": "Bo", "content": [picture]},
            {"message_type": "reasoning_message", "reasoning": "Hm"},
            {"message_type": "tool_call_message", "tool_call": {"name": "look"}},
            {"message_type": "tool_return_message", "tool_return": "Found\nit"},
            {"message_type": "assistant_message", "content": [{"type": "text", "text": "Good"}]},
            {"message_type": "system_message", "content": "It rains"},
        ]
        lines = transcript_of([messages[:3], messages[3:]])
        assert lines == [
            "user: I live in Bern",
            "Bo: [image]",
            "assistant calls look",
            "tool: Found it",
            "assistant: Good",
            "system: It rains",
        ]
        assert review_text(lines, is_voice=False).endswith("\n" + "\n".join(lines))
        assert "\n1. Bo: [image]\n2. assistant calls look\n" in review_text(lines, is_voice=True)

    def test_what_is_too_long_loses_its_end_or_its_beginning(self) -> None:
        long = {"message_type": "user_message", "content": "x" * (MESSAGE_CHARS_MAX + 1)}
        [line] = transcript_of([[long]])
        assert line == f"user: {'x' * MESSAGE_CHARS_MAX}..."
        lines = [f"user: {number} {'x' * 1_000}" for number in range(200)]
        text = review_text(lines, is_voice=False)
        assert len(text) < TRANSCRIPT_CHARS_MAX + 1_000
        assert text.endswith(lines[-1])
        assert lines[0] not in text


class TestService:
    async def test_a_sleeptime_agent_and_its_group_are_made_once(self) -> None:
        world = SleeptimeWorld()
        for message_id in ("command-1", "command-2", "command-2"):
            reply = await world.send(EnableSleeptime(agent_id=AGENT), message_id)
            assert reply == Accepted(result={"group_id": GROUP})
        [made] = world.sent
        assert isinstance(made, CreateAgent)
        assert made.agent_id == sleeptime_agent(GROUP)
        blocks = made.request.pop("memory_blocks")
        assert isinstance(blocks, list)
        assert made.request == {
            "name": "Ada-sleeptime",
            "agent_type": "sleeptime_agent",
            "block_ids": ["block-1"],
            "llm_config": ADA.llm_config,
            "embedding_config": ADA.embedding_config,
            "project_id": "project-1",
        }
        config = (await world.group(GROUP)).present
        assert config == GroupConfig(
            manager_type="sleeptime",
            manager_agent_id=AGENT,
            agent_ids=[made.agent_id],
            sleeptime_agent_frequency=5,
            turns_counter=0,
        )

    async def test_what_a_crash_left_is_found_again(self) -> None:
        world = SleeptimeWorld()
        world.agents[sleeptime_agent(GROUP)] = replace(ADA, agent_type="sleeptime_agent")
        world.start_process("process-2")
        reply = await world.send(EnableSleeptime(agent_id=AGENT), "command-1")
        assert reply == Accepted(result={"group_id": GROUP})

    async def test_a_sleeptime_agent_that_is_refused_makes_no_group(self) -> None:
        world = SleeptimeWorld()
        world.refuses = Rejected(code=CONFLICT, reason="Blocks have one label")
        assert await world.send(EnableSleeptime(agent_id=AGENT), "command-1") == world.refuses
        assert await world.sleeptime_groups("org-1", AGENT) == []
        world.refuses = None
        assert isinstance(await world.send(EnableSleeptime(agent_id=AGENT), "command-2"), Accepted)
        missing = await world.send(EnableSleeptime(agent_id="agent-gone"), "command-3")
        assert isinstance(missing, Rejected)
        assert missing.code == NOT_FOUND

    async def test_a_sleeptime_agent_whose_agent_is_gone_meanwhile_goes_again(self) -> None:
        world = SleeptimeWorld()
        world.agents[sleeptime_agent(GROUP)] = replace(ADA, agent_type="sleeptime_agent")
        del world.agents[AGENT]
        refused = await world.send(EnableSleeptime(agent_id=AGENT), "command-1")
        assert isinstance(refused, Rejected)
        assert world.agents == {}

    async def test_a_group_ends_with_its_sleeptime_agents_and_another_can_follow(self) -> None:
        world = SleeptimeWorld()
        await world.send(EnableSleeptime(agent_id=AGENT), "command-1")
        await world.send(EndSleeptime(agent_id=AGENT), "command-2")
        assert sleeptime_agent(GROUP) not in world.agents
        assert (await world.group(GROUP)).present is None
        _, disabled, deleted = world.sent
        assert disabled == UpdateAgent(agent_id=AGENT, request={"enable_sleeptime": None})
        assert deleted == DeleteAgent(agent_id=sleeptime_agent(GROUP))
        assert await world.send(EndSleeptime(agent_id=AGENT), "command-3") == Accepted()
        reply = await world.send(EnableSleeptime(agent_id=AGENT), "command-4")
        assert reply == Accepted(result={"group_id": sleeptime_group(AGENT, 1)})

    async def test_members_that_are_no_sleeptime_agents_stay(self) -> None:
        world = SleeptimeWorld()
        world.agents["agent-bo"] = replace(ADA, name="Bo")
        await world.begin("group-2", manager_type="sleeptime", agent_ids=["agent-bo"])
        await world.send(EndSleeptime(agent_id=AGENT), "command-1")
        assert "agent-bo" in world.agents
        assert (await world.group("group-2")).present is None

    async def test_an_agent_that_reviews_another_one_too_stays(self) -> None:
        world = SleeptimeWorld()
        world.agents[SLEEPER] = replace(ADA, agent_type="sleeptime_agent")
        await world.begin("group-2", manager_type="sleeptime", agent_ids=[SLEEPER])
        other = {"manager_type": "sleeptime", "manager_agent_id": "agent-bo"}
        await world.begin("group-3", agent_ids=[SLEEPER], **other)
        await world.send(EndSleeptime(agent_id=AGENT), "command-1")
        assert SLEEPER in world.agents
        assert (await world.group("group-2")).present is None
        assert (await world.group("group-3")).present is not None

    async def test_what_is_deleted_before_its_review_begins_is_not_reviewed(self) -> None:
        world = SleeptimeWorld()
        await world.begin(GROUP, manager_type="sleeptime", agent_ids=[SLEEPER])
        world.deleted.add("run-1")
        await world.end_run("run-1")
        await settle(world)
        assert world.runs.wanted == {}
        assert not (await world.group(GROUP)).state.reviews

    async def test_each_fifth_run_starts_one_review_however_often_events_come(self) -> None:
        world = SleeptimeWorld()
        await world.send(EnableSleeptime(agent_id=AGENT), "command-1")
        sleeper = sleeptime_agent(GROUP)
        for number in range(1, 11):
            for _ in range(2):
                await world.end_run(f"run-{number}")
            await settle(world)
        due = [review_run(GROUP, f"run-{number}", sleeper) for number in (5, 10)]
        assert [*world.runs.wanted] == due
        assert world.runs.starts == 2
        [first, second] = world.runs.wanted.values()
        assert first.agent_id == sleeper
        assert first.metadata == {"run_type": "sleeptime", "group_id": GROUP, "agent_id": sleeper}
        assert "user: None to message-of-run-5" in str(first.messages[0].content)
        assert "user: message-of-run-5 to message-of-run-10" in str(second.messages[0].content)

    async def test_two_processes_count_a_run_once(self) -> None:
        world = SleeptimeWorld()
        await world.begin(GROUP, manager_type="sleeptime", agent_ids=[SLEEPER])
        world.answered["run-1"] = "message-1"
        first = world.dispatcher, world.reviews
        world.start_process("process-2")
        command, name = CountRun(group_id=GROUP, run_id="run-1"), count_id(GROUP, "run-1")
        replies = [await world.send(command, name)]
        world.dispatcher = first[0]
        replies.append(await world.send(command, name))
        replies.append(await world.send(command, "another-name"))
        await asyncio.gather(*[settle(world, reviews) for reviews in (first[1], world.reviews)])
        run_ids = [review_run(GROUP, "run-1", SLEEPER)]
        assert replies[:2] == [Accepted(result={"run_ids": [*run_ids]})] * 2
        assert [*world.runs.wanted] == run_ids
        assert world.runs.starts == 1

    async def test_a_review_whose_process_died_is_started_by_another(self) -> None:
        world = SleeptimeWorld()
        await world.begin(GROUP, manager_type="sleeptime", agent_ids=[SLEEPER])
        world.reviews.stopping = True
        await world.end_run("run-1")
        assert world.runs.wanted == {}
        world.start_process("process-2")
        await world.reviews.sweep()
        await settle(world)
        assert [*world.runs.wanted] == [review_run(GROUP, "run-1", SLEEPER)]
        assert await world.due_reviews() == []

    async def test_a_start_that_is_refused_for_now_is_tried_again(self) -> None:
        world = SleeptimeWorld()
        await world.begin(GROUP, manager_type="sleeptime", agent_ids=[SLEEPER])
        world.runs.refusals = [Rejected(code="busy", reason="Too many runs wait")]
        await world.end_run("run-1")
        await settle(world)
        assert (await world.group(GROUP)).state.reviews
        await world.reviews.sweep()
        await settle(world)
        assert [*world.runs.wanted] == [review_run(GROUP, "run-1", SLEEPER)]
        assert not (await world.group(GROUP)).state.reviews

    async def test_a_start_that_is_refused_for_good_ends_the_review(self) -> None:
        world = SleeptimeWorld()
        await world.begin(GROUP, manager_type="sleeptime", agent_ids=[SLEEPER])
        world.runs.refusals = [Rejected(code=NOT_FOUND, reason="The agent is gone")]
        await world.end_run("run-1")
        await settle(world)
        assert not (await world.group(GROUP)).state.reviews
        assert world.runs.starts == 1


def test_a_long_name_is_cut() -> None:
    assert sleeptime_agent_name("x" * 500) == "x" * 490 + "-sleeptime"


async def settle(world: SleeptimeWorld, reviews: Any = None) -> None:
    """Let the attempts that have begun end."""
    begun = reviews or world.reviews
    while begun.tasks:
        await asyncio.gather(*begun.tasks.values())
        await asyncio.sleep(0)
