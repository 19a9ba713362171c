"""What sleeptime groups read of agents, messages and groups, by Postgres."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from libs.contracts.groups.sleeptime import Review, sleeptime_group
from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork
from services.agent.adapters.memory_queries import ArchivalMemoryQueries
from services.api.adapters.groups.sleeptime_queries import SleeptimeQueries
from services.groups.adapters.group_queries import PostgresGroupQueries
from services.groups.adapters.sleeptime_queries import (
    LostSleeptimeGroup,
    PostgresSleeptimeQueries,
    ReviewedAgent,
    UnreviewedAgent,
)
from services.groups.domain.sleeptime import SaidMessage

ORG, OTHER = "org-1", "org-2"
START = datetime(2026, 1, 1, tzinfo=UTC)  # when the first message is recorded
ADA, SLEEPER = "agent-ada", "agent-sleeper"
AGENT_ADDED = """
insert into agent.agents
    (id, org, created_at, updated_at, name, conversation_id, block_ids, tags, tools, fields, body)
values (%s, %s, now(), now(), 'Ada', 'conv-1', array['block-1'], '{}', '[]', %s, %s)"""
GROUP_ADDED = """
insert into groups.groups (id, org, created_at, updated_at, manager_type, manager_agent_id,
    agent_ids, fields, metadata, shared_state, state_version)
values (%s, %s, now(), now(), %s, %s, %s, '{}', '{}', '{}', 0)"""
MEMBER_ADDED = """
insert into groups.group_members (id, group_id, agent_id, org, joined_at)
values (%s, %s, %s, %s, now())"""
MESSAGE_ADDED = """
insert into agent.messages (id, org, agent_id, conversation_id, position, run_id, role, created_at,
    sent, in_context, text, v1_messages, recorded_at)
values (%s, %s, %s, 'conv-1', %s, %s, %s, now(), %s, true, '', %s,
    '2026-01-01'::timestamptz + make_interval(secs => %s))"""
EVENT_ADDED = """
insert into {}.events (xid, aggregate_id, version, topic, schema_version, org, about, payload,
    metadata, occurred_at)
values (pg_current_xact_id(), %s, 1, %s, 1, %s, %s, '{{}}', '{{}}', now())"""


async def add_agent(
    database: Database, agent_id: str, kind: str = "letta_v1_agent", **fields: Any
) -> None:
    body = {"agent_type": kind, "llm_config": {"model": "m"}, "embedding_config": None}
    known = {"project_id": "project-1", "enable_sleeptime": None, **fields}
    values = [agent_id, ORG, json.dumps(known), json.dumps(body)[1:-1]]
    await database.fetch(AGENT_ADDED, values)


async def add_group(
    database: Database, group_id: str, kind: str, manager: str, *members: str, org: str = ORG
) -> None:
    await database.fetch(GROUP_ADDED, [group_id, org, kind, manager, [*members]])
    for member in members:
        await database.fetch(MEMBER_ADDED, [f"{group_id} {member}", group_id, member, org])


async def test_an_agent_is_read_as_its_sleeptime_agent_needs_it(database: Database) -> None:
    queries = PostgresSleeptimeQueries(database)
    await add_agent(database, ADA, enable_sleeptime=True)
    await add_agent(database, SLEEPER, "sleeptime_agent")
    assert await queries.reviewed_agent(ORG, ADA) == ReviewedAgent(
        name="Ada",
        project_id="project-1",
        block_ids=["block-1"],
        enable_sleeptime=True,
        agent_type="letta_v1_agent",
        llm_config={"model": "m"},
        embedding_config=None,
    )
    assert await queries.reviewed_agent(OTHER, ADA) is None
    assert await queries.sleeptime_agents(ORG, [ADA, SLEEPER, "agent-gone"]) == [SLEEPER]
    assert await queries.sleeptime_agents(OTHER, [SLEEPER]) == []


async def test_sleeptime_groups_are_found_by_their_manager_and_their_members(
    database: Database,
) -> None:
    queries, reads = PostgresSleeptimeQueries(database), SleeptimeQueries(database)
    await add_group(database, "group-1", "supervisor", ADA, SLEEPER)
    assert await queries.sleeptime_groups(ORG, ADA) == []
    assert await reads.manager_of_sleeptime(ORG, SLEEPER) is None
    await add_group(database, "group-2", "sleeptime", ADA, SLEEPER)
    await add_group(database, "group-3", "sleeptime", ADA, SLEEPER, org=OTHER)
    for found in (queries.sleeptime_groups, reads.sleeptime_groups):
        assert await found(ORG, ADA) == ["group-2"]
        assert await found(OTHER, ADA) == ["group-3"]
    assert await reads.sleeptime_agents_of(ORG, ADA) == [SLEEPER]
    assert await reads.manager_of_sleeptime(ORG, ADA) == ADA
    assert await reads.manager_of_sleeptime(ORG, SLEEPER) == ADA
    assert await reads.manager_of_sleeptime("org-3", SLEEPER) is None


async def test_what_is_reviewed_lies_between_two_messages(database: Database) -> None:
    queries = PostgresSleeptimeQueries(database)
    await add_agent(database, ADA)
    said = [("system", False), ("user", True), ("assistant", False), ("system", True)]
    said += [("user", True), ("summary", False), ("assistant", False)]
    for number, (role, sent) in enumerate(said):
        shown = json.dumps([{"content": f"{number}"}])
        row = [f"message-{number}", ORG, ADA, number, f"run-{number // 4}", role, sent, shown]
        await database.fetch(MESSAGE_ADDED, [*row, number])
    row = ["message-x", ORG, "agent-bo", 9, "run-x", "user", True, "[]"]
    await database.fetch(MESSAGE_ADDED, [*row, 9])

    ids = [("1", True), ("2", False), ("3", False), ("4", True), ("6", False)]
    everything = [SaidMessage(f"message-{id}", from_user) for id, from_user in ids]
    assert await queries.unreviewed_messages(ORG, ADA, None, None) == everything
    assert await queries.unreviewed_messages(ORG, ADA, "message-3", START) == everything[3:]
    third = START + timedelta(seconds=3)
    assert await queries.unreviewed_messages(ORG, ADA, "message-gone", third) == everything[3:]
    assert await queries.unreviewed_messages(OTHER, ADA, None, None) == []
    assert await queries.last_answer(ORG, "run-0", None, None) == "message-2"
    assert await queries.last_answer(ORG, "run-0", "message-1", START) == "message-2"
    assert await queries.last_answer(ORG, "run-0", "message-4", START) is None
    assert await queries.last_answer(ORG, "run-0", "message-gone", third) is None
    assert await queries.last_answer(OTHER, "run-0", None, None) is None
    review = Review(run_id="run-1", after_message_id="message-2", last_message_id="message-4")
    shown_messages = await queries.reviewed_messages(ORG, ADA, review)
    assert shown_messages == [[{"content": "3"}], [{"content": "4"}]]
    first = Review(run_id="run-1", last_message_id="message-1")
    assert await queries.reviewed_messages(ORG, ADA, first) == [[{"content": "1"}]]
    assert await queries.reviewed_messages(OTHER, ADA, review) == []
    second, fourth = START + timedelta(seconds=2), START + timedelta(seconds=4)
    gone = {"after_message_id": "message-gone", "last_message_id": "message-gone-too"}
    review = Review(run_id="run-1", **gone, after_at=second, requested_at=fourth)
    assert await queries.reviewed_messages(ORG, ADA, review) == shown_messages


async def test_a_review_is_due_until_it_has_started_or_somebody_works_at_it(
    database: Database,
) -> None:
    queries = PostgresSleeptimeQueries(database)
    added = "insert into groups.reviews values (%s, %s, 'org-1', now() - %s * interval '1 s')"
    await database.fetch(added, ["group-1 run-1", "group-1", 1])
    await database.fetch(added, ["group-2 run-1", "group-2", 9])
    await database.fetch(added, ["group-2 run-2", "group-2", 5])
    assert await queries.due_reviews() == [DueWork("group-2", ORG), DueWork("group-1", ORG)]
    leased = "insert into groups.leases (key, epoch, holder, expires_at) values"
    await database.fetch(f"{leased} ('group-2', 1, 'somebody', now() + interval '1 minute')")
    assert await queries.due_reviews() == [DueWork("group-1", ORG)]


async def test_a_sleeptime_group_of_which_an_agent_is_gone_ends_as_a_whole(
    database: Database,
) -> None:
    queries, groups = PostgresSleeptimeQueries(database), PostgresGroupQueries(database)
    await add_group(database, "group-1", "sleeptime", ADA, SLEEPER)
    await add_group(database, "group-2", "voice_sleeptime", "agent-bo", "agent-cy")
    await add_group(database, "group-3", "round_robin", "agent-bo", SLEEPER)
    assert await queries.lost_groups() == []
    deleted = EVENT_ADDED.format("agent")
    await database.fetch(deleted, [SLEEPER, "agent.deleted", ORG, SLEEPER])
    lost = [LostSleeptimeGroup("group-1", ADA, ORG)]
    assert await queries.lost_groups() == lost
    assert [part.group_id for part in await groups.lost_members(None)] == ["group-3"]
    await database.fetch(deleted, ["agent-bo", "agent.deleted", ORG, "agent-bo"])
    lost.append(LostSleeptimeGroup("group-2", "agent-bo", ORG))
    assert await queries.lost_groups() == lost


async def test_one_sleeptime_agent_of_several_leaves_the_others_their_group(
    database: Database,
) -> None:
    queries, groups = PostgresSleeptimeQueries(database), PostgresGroupQueries(database)
    await add_agent(database, SLEEPER, "sleeptime_agent")
    await add_group(database, "group-1", "sleeptime", ADA, SLEEPER, "agent-other")
    await add_group(database, "group-2", "supervisor", "agent-bo", SLEEPER)
    reads = SleeptimeQueries(database)
    assert await reads.manager_of_sleeptime(ORG, SLEEPER) is None
    assert await queries.own_sleeptime_agents(ORG, ADA, [SLEEPER]) == [SLEEPER]
    deleted = EVENT_ADDED.format("agent")
    await database.fetch(deleted, ["agent-other", "agent.deleted", ORG, "agent-other"])
    assert await queries.lost_groups() == []
    assert [part.group_id for part in await groups.lost_members(None)] == ["group-1"]
    await database.fetch(deleted, [SLEEPER, "agent.deleted", ORG, SLEEPER])
    await database.fetch("delete from agent.agents where id = %s", [SLEEPER])
    assert await queries.lost_groups() == [LostSleeptimeGroup("group-1", ADA, ORG)]
    assert [part.group_id for part in await groups.lost_members(None)] == ["group-2"]
    await add_agent(database, SLEEPER, "sleeptime_agent")
    await add_group(database, "group-3", "sleeptime", "agent-cy", SLEEPER)
    assert await queries.own_sleeptime_agents(ORG, ADA, [SLEEPER]) == []


async def test_an_agent_that_never_got_its_group_gets_one(database: Database) -> None:
    queries = PostgresSleeptimeQueries(database)
    await add_agent(database, ADA, enable_sleeptime=True)
    await add_agent(database, "agent-bo", enable_sleeptime=True)
    await add_agent(database, "agent-cy", enable_sleeptime=False)
    await add_agent(database, "agent-di", enable_sleeptime=True)
    await add_group(database, "group-1", "sleeptime", "agent-bo")
    gone = sleeptime_group("agent-di")  # a client has deleted it
    created = EVENT_ADDED.format("groups")
    await database.fetch(created, [gone, "group.created", ORG, gone])
    assert await queries.agents_without_group() == [UnreviewedAgent(ADA, ORG)]


async def test_a_sleeptime_agent_for_voice_stores_for_the_agent_that_it_reviews(
    database: Database,
) -> None:
    queries = ArchivalMemoryQueries(database)
    await add_group(database, "group-1", "sleeptime", ADA, "agent-other")
    await add_group(database, "group-2", "voice_sleeptime", ADA, SLEEPER)
    assert await queries.archive_owner(ORG, SLEEPER) == ADA
    assert await queries.archive_owner(ORG, "agent-other") == "agent-other"
    assert await queries.archive_owner(OTHER, SLEEPER) == SLEEPER
