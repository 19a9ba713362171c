"""Moments: who makes them, how many there are, how long they stay, and who may read them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from deploy.rebuild import read_models
from libs.bus import moments as making
from libs.bus.moments import MomentHandlers
from libs.contracts.agent.agents import AgentUpdated
from libs.contracts.bus_messages import UNAVAILABLE, UNPROCESSABLE, Accepted, Context, Rejected
from libs.contracts.moments import MOMENT_TABLES, SERVICES_WITH_MOMENTS, moment_command
from libs.eventstore import moments as storing
from libs.eventstore.as_of_reads import query_of_the_past, reading_as_of
from libs.eventstore.as_of_schema import create_as_of_schema
from libs.eventstore.moments import MomentAbandoned, Moments, WantedMoment
from services.agent.adapters import moment_aggregates as agent_aggregates
from services.agent.adapters.moment_aggregates import SKIPPED_TOPICS, AgentMomentAggregates
from services.api.adapters.agents import moment_aggregates as api_aggregates
from services.api.adapters.agents import past_reads
from services.api.adapters.agents.past_reads import Cut, NoSuchMoment, NotAMoment
from services.groups.adapters import moment_aggregates as group_aggregates
from services.memory.adapters import moment_aggregates as memory_aggregates
from tests.contract.as_of_histories import ORG, Life, Services, example, services
from tests.contract.examples import AGENT
from tests.servers import PostgresServer
from tests.unit.given import NOW

CONTEXT = Context(message_id="look", org=ORG)


@pytest.fixture
async def world(postgres_server: PostgresServer) -> AsyncIterator[Services]:
    """An agent with two blocks that was renamed twice."""
    async with services(postgres_server) as found:
        life = Life(Random(1))
        for unit in life.begin():
            await found.commit(unit)
        for _ in range(2):
            await found.commit(life.unit("agent", AGENT, example(AgentUpdated)))
        yield found
        found.forget()


@pytest.fixture
def admin(world: Services) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(world.admin_url, autocommit=True) as connection:
        yield connection


async def ask(
    world: Services, handlers: MomentHandlers | None = None, version: int = 1
) -> Accepted | Rejected:
    """What a process of the agent service answers about the agent at a version of it."""
    cut = await world.past.resolve(ORG, AGENT, f"{AGENT}.{version}")
    command = moment_command("agent")(asker="moment-1", agent_id=AGENT, cut=cut.commit_order)
    work: Any = type("Work", (), {"context": CONTEXT})
    return await (handlers or world.handlers["agent"]).materialize(command, work)


def process(world: Services) -> MomentHandlers:
    """One more process of the agent service."""
    database = world.moments["agent"].database
    moments = Moments(database, read_models("agent"), SKIPPED_TOPICS)
    clock = world.handlers["agent"].clock
    return MomentHandlers(moments, AgentMomentAggregates(database), clock)


def states(admin: psycopg.Connection[Any]) -> list[str]:
    """The states of the moments of the agent service, the oldest first."""
    found = admin.execute("select state from agent_as_of.moments order by begun_at").fetchall()
    return [state for (state,) in found]


async def test_of_two_processes_one_makes_a_moment_and_both_answer_with_it(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    answers = await asyncio.gather(
        *(ask(world), ask(world), ask(world, process(world)), ask(world, process(world)))
    )

    assert states(admin) == ["complete"]
    [(as_of,)] = admin.execute("select as_of from agent_as_of.moments").fetchall()
    assert answers == [Accepted(result={"as_of": as_of})] * 4


async def test_a_moment_whose_process_died_is_made_by_another_and_no_late_write_is_seen(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    cut = await world.past.resolve(ORG, AGENT, f"{AGENT}.1")
    selection = making.selection_of(())
    wanted = WantedMoment(ORG, AGENT, cut.commit_order, selection)
    dead = world.moments["agent"]
    claim = await dead.claim(wanted)
    assert claim.as_of is not None
    admin.execute("update agent_as_of.moments set seen_at = now() - interval '1 hour'")

    answer = await ask(world, process(world))

    assert isinstance(answer, Accepted)
    assert states(admin) == ["abandoned", "complete"]
    with pytest.raises(MomentAbandoned):
        await dead.fill(claim.as_of, wanted, [AGENT])
    with pytest.raises(MomentAbandoned):
        await dead.complete(claim.as_of)
    rows = admin.execute("select as_of from agent_as_of.agents_rows").fetchall()
    assert rows == [(answer.result["as_of"],)]


async def test_after_a_crash_of_postgres_no_process_writes_to_the_moment_of_another(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    cut = await world.past.resolve(ORG, AGENT, f"{AGENT}.1")
    wanted = WantedMoment(ORG, AGENT, cut.commit_order, making.selection_of(()))
    moments = world.moments["agent"]
    before = await moments.claim(wanted)
    assert before.as_of is not None
    # What a crash does to tables that are not logged.
    unlogged = ", ".join(f"agent_as_of.{name}_rows" for name in MOMENT_TABLES["agent"])
    admin.execute(f"truncate agent_as_of.moments, {unlogged} restart identity".encode())

    other = await moments.claim(replace(wanted, agent_id="agent-other"))

    assert other.as_of != before.as_of
    with pytest.raises(MomentAbandoned):
        await moments.fill(before.as_of, wanted, [AGENT])
    assert admin.execute("select count(*) from agent_as_of.agents_rows").fetchone() == (0,)


async def test_what_takes_long_is_answered_later(
    world: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "ANSWER_SECONDS_MAX", 0.0)
    first = await ask(world)
    assert isinstance(first, Rejected)
    assert first.code == UNAVAILABLE

    monkeypatch.undo()
    assert isinstance(await ask(world), Accepted)


async def test_an_organisation_has_a_number_of_moments_and_the_least_read_makes_room(
    world: Services, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "MOMENTS_OF_ORG_MAX", 2)
    assert isinstance(await ask(world, version=1), Accepted)
    assert isinstance(await ask(world, version=2), Accepted)
    full = await ask(world, version=3)
    assert isinstance(full, Rejected)
    assert (full.code, "ask again in a minute" in full.reason) == (UNAVAILABLE, True)

    admin.execute(
        "update agent_as_of.moments set used_at = now() - interval '2 minutes' where"
        " begun_at = (select max(begun_at) from agent_as_of.moments)"
    )
    assert isinstance(await ask(world, version=3), Accepted)
    assert states(admin) == ["complete", "abandoned", "complete"]


async def test_a_history_that_is_too_long_is_refused(
    world: Services, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "MOMENT_EVENTS_MAX", 2)
    refused = await ask(world, version=3)
    assert isinstance(refused, Rejected)
    assert (refused.code, "too long" in refused.reason) == (UNPROCESSABLE, True)
    assert states(admin) == ["abandoned"]
    assert isinstance(await ask(world, version=2), Accepted)


async def test_a_moment_that_nobody_reads_is_swept_with_its_rows(
    world: Services, admin: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "SWEPT_EVERY_SECONDS", -1.0)
    await ask(world, version=1)
    await ask(world, version=2)
    moments = world.moments["agent"]
    admin.execute(
        "update agent_as_of.moments set used_at = now() - interval '2 hours' where"
        " begun_at = (select min(begun_at) from agent_as_of.moments)"
    )

    await moments.sweep()
    assert states(admin) == ["abandoned", "complete"]
    assert admin.execute("select count(*) from agent_as_of.agents_rows").fetchone() == (2,)
    admin.execute("update agent_as_of.moments set seen_at = now() - interval '2 minutes'")
    await moments.sweep()

    assert states(admin) == ["complete"]
    assert admin.execute("select count(*) from agent_as_of.agents_rows").fetchone() == (1,)
    # The same moment is made again when somebody asks.
    assert isinstance(await ask(world, version=1), Accepted)


async def test_what_is_erased_leaves_the_past(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    await ask(world, version=2)
    moments = world.moments["agent"]
    await moments.forget(["agent-of-somebody-else"])
    assert states(admin) == ["complete"]
    await moments.forget([AGENT])
    assert states(admin) == []
    assert admin.execute("select count(*) from agent_as_of.agents_rows").fetchone() == (0,)


async def test_an_event_is_waited_for_while_an_older_commit_is_open(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    with psycopg.connect(world.admin_url) as open_commit:
        open_commit.execute("select pg_current_xact_id()")
        life = Life(Random(2), versions={AGENT: 3})
        await world.commit(life.unit("agent", AGENT, example(AgentUpdated)))
        asked = asyncio.create_task(world.past.resolve(ORG, AGENT, f"{AGENT}.4"))
        await asyncio.sleep(0)
        assert not asked.done()
        open_commit.rollback()
    assert isinstance(await asked, Cut)


async def test_nobody_but_its_service_reads_the_rows_of_all_moments(world: Services) -> None:
    api = world.reads.database
    assert await api.fetch("select * from agent_as_of.agent_view") == []
    for forbidden in (
        "select * from agent_as_of.agents_rows",
        "select * from agent_as_of.agents",
        "select * from agent_as_of.moments",
        "delete from agent_as_of.message_view",
    ):
        with pytest.raises(InsufficientPrivilege):
            await api.fetch(forbidden)


def test_the_schema_of_the_past_is_made_again_when_that_of_the_service_changes(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    tables = MOMENT_TABLES["tools"]
    assert not create_as_of_schema(admin, "tools", tables)
    admin.execute("alter table tools.tools add column colour text")
    try:
        assert create_as_of_schema(admin, "tools", tables)
        admin.execute("select colour from tools_as_of.tools")
        admin.execute("drop view tools_as_of.tool_view")
        assert create_as_of_schema(admin, "tools", tables)
        admin.execute("select * from tools_as_of.tool_view")
    finally:
        admin.execute("alter table tools.tools drop column colour")
        assert create_as_of_schema(admin, "tools", tables)


@pytest.mark.parametrize("service", SERVICES_WITH_MOMENTS)
def test_each_table_of_a_moment_is_a_read_model(service: str) -> None:
    known = {table.name for table in read_models(service).tables}
    assert set(MOMENT_TABLES[service]) <= known


INDEXES = {
    "events_conversations": agent_aggregates.CONVERSATIONS,
    "events_archives": memory_aggregates.ARCHIVES,
    "events_passages": memory_aggregates.PASSAGES,
    "events_files": memory_aggregates.FILES,
    "events_group_manager": group_aggregates.MANAGED,
    "events_attachments": api_aggregates.ATTACHMENTS,
    "events_time": past_reads.NEWEST_BEFORE,
}


@pytest.mark.parametrize("index", INDEXES)
def test_what_an_agent_has_is_found_by_an_index(index: str, admin: psycopg.Connection[Any]) -> None:
    admin.execute("set enable_seqscan = off")
    values = {
        **{"agent": AGENT, "org": ORG, "cut": 1, "as_of": 1, "targets": [AGENT]},
        **{"at": NOW, "after": NOW},
    }

    def plan() -> str:
        explained = admin.execute(f"explain {INDEXES[index]}".encode(), values).fetchall()
        return "\n".join(line for (line,) in explained)

    assert "Seq Scan on events" not in plan(), plan()
    with admin.transaction(force_rollback=True):
        # Of a few events, any index may be read from end to end: the others are not to be had.
        admin.execute(
            "update pg_index set indisvalid = false where indrelid in"
            " (select indrelid from pg_index where indexrelid::regclass::text like %s)"
            " and indexrelid::regclass::text not like %s",
            [f"%{index}", f"%{index}"],
        )
        assert f" {index} " in plan(), plan()


async def test_an_event_of_another_organisation_is_no_moment(world: Services) -> None:
    for at in (f"{AGENT}.1", "2999-01-01"):
        with pytest.raises(NoSuchMoment):
            await world.past.resolve("org-2", AGENT, at)
    cut = await world.past.resolve(ORG, AGENT, f"{AGENT}.1")
    theirs = replace(cut, org="org-2")
    with pytest.raises(NoSuchMoment):
        await world.past.moments(theirs, replace(CONTEXT, org="org-2"))


async def test_the_past_is_found_by_the_key_of_its_moment(
    world: Services, admin: psycopg.Connection[Any]
) -> None:
    """No query of the past reads the rows of other moments."""
    cut = await world.past.resolve(ORG, AGENT, f"{AGENT}.2")
    database = world.reads.database
    asked: list[tuple[str, Any]] = []
    fetch_text, fetch, fetch_one = database.fetch_text, database.fetch, database.fetch_one

    def noting(inner: Any) -> Any:
        async def ask_and_note(query: str, parameters: Any = None) -> Any:
            asked.append((query_of_the_past(query), parameters))
            return await inner(query, parameters)

        return ask_and_note

    with reading_as_of(await world.past.moments(cut, CONTEXT)), pytest.MonkeyPatch.context() as to:
        for name, inner in {
            "fetch_text": fetch_text,
            "fetch": fetch,
            "fetch_one": fetch_one,
        }.items():
            to.setattr(database, name, noting(inner))
        await world.look()
    admin.execute("set enable_seqscan = off")
    for query, parameters in asked:
        explained = admin.execute(f"explain {query}".encode(), parameters).fetchall()
        plan = "\n".join(line for (line,) in explained)
        for line in plan.splitlines():
            assert "Seq Scan on" not in line or "_rows" not in line, plan


@pytest.mark.parametrize(
    "at",
    [
        *("0001-01-01", "0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00-23:59"),
        *("9999-12-31T23:59:59.999999-23:59", "9999-12-31", "2026-01-31T14:30:00 02:00"),
        *("agent-\u0661.1", "\u0662\u0660\u0662\u0666-01-01", "2026-W05-6", "x" * 10_000, "\ud800"),
        *("agent-1.999999999", "agent-1.9999999999", "-.1", "block-%(agent)s.1", "a-'.1"),
    ],
)
async def test_odd_moments_are_found_or_refused(world: Services, at: str) -> None:
    with suppress(NotAMoment, NoSuchMoment):
        assert (await world.past.resolve(ORG, AGENT, at)).commit_order > 0
