"""Imports: whole or not at all, whichever process dies, and whatever is refused."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from libs.contracts.agent.agents import AgentCreated
from libs.contracts.agent.conversations import MessageAppended
from libs.contracts.agent.runs import RunAccepted
from libs.contracts.api.imports import ImportOptions, ImportSource, RequestImport, imported_agent_id
from libs.contracts.appended_histories import AppendHistories
from libs.contracts.bus_messages import Context
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.tools import ToolState
from libs.contracts.memory.archives import PassageCreated
from libs.contracts.memory.blocks import BlockCreated
from services.api.domain.agent_import import AgentImport
from services.api.domain.imported_agent import ImportedAgent
from services.api.engine import import_transfer, imports
from services.api.engine.import_definitions import said_of
from tests.contract.examples import AGENT
from tests.contract.histories import one
from tests.unit.api.import_world import IMPORT, ORG, REFUSED, ImportWorld
from tests.unit.api.test_line_checks import ARCHIVE, CONVERSATION, history, sound, written

SEEDS = 100
TABLES = ("agents", "blocks", "archives", "passages", "messages", "runs", "archive_agents")


def random_agent(random: Random, *, is_open: bool) -> list[dict[str, Any]]:
    """The lines of an agent with a random number of everything, without the footer. Where it
    `is_open`, a run of it has not ended: no such conversation is taken."""
    header, archive, *_ = sound()
    blocks = [one(BlockCreated) for _ in range(random.randrange(1, 5))]
    lines = [header, {**archive, "attached_to": [AGENT]}]
    for number, block in enumerate(blocks):
        block_id = derived_id("block", str(number))
        named = block.block.model_copy(update={"id": block_id, "label": f"block {number}"})
        event = block.model_copy(update={"block": named, "agent_id": ""})
        lines.append(history("memory", block_id, event))
    for number in range(random.randrange(6)):
        passage = one(PassageCreated, archive_id=ARCHIVE)
        lines.append(history("memory", derived_id("passage", str(number)), passage))
    lines += conversation(random, is_open=is_open)
    agent = one(AgentCreated)
    config = agent.config.model_copy(update={"id": AGENT})
    lines.append(history("agent", AGENT, agent.model_copy(update={"config": config})))
    return lines


def conversation(random: Random, *, is_open: bool) -> list[dict[str, Any]]:
    """The history of the agent's own conversation in parts."""
    said = one(MessageAppended, agent_id=AGENT, run_id=None, step_id=None, chunks=None)
    events: list[Any] = []
    for number in range(random.randrange(1, 12)):
        message = said.message.model_copy(update={"id": derived_id("message", str(number))})
        events.append(said.model_copy(update={"message": message}))
    if is_open:
        accepted = one(RunAccepted)
        run = accepted.run.model_copy(update={"agent_id": AGENT})
        events.append(accepted.model_copy(update={"run": run, "callers": []}))
    parts, first = [], 0
    while first < len(events):
        size = random.randrange(1, 5)
        last = first + size >= len(events)
        part = history("agent", CONVERSATION, *events[first : first + size])
        part["history"] |= {"first_version": first + 1, "complete": last}
        parts.append(part)
        first += size
    return parts


def rows(world: ImportWorld) -> dict[str, list[dict[str, Any]]]:
    """What all services have."""
    return {table: world.elsewhere.rows(table) for table in TABLES if table != "archive_agents"}


async def imported(lines: list[bytes], **options: Any) -> ImportWorld:
    """A world in which nothing goes wrong with an import."""
    world = ImportWorld(Random(0), lines)
    await world.request(**options)
    await world.end()
    return world


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_an_import_is_whole_or_nothing_whatever_dies_or_is_refused(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    monkeypatch.setattr(import_transfer, "APPENDED_EVENTS_MAX", random.randrange(1, 5))
    is_open = random.random() < 0.3
    lines = written(random_agent(random, is_open=is_open))
    options = {"conflicts": random.choice([None, "fail", "copy"])}
    world = ImportWorld(random, lines)
    elsewhere = world.elsewhere
    elsewhere.refused = random.choice(REFUSED)
    elsewhere.dies = {
        f"{random.choice(['before', 'after'])} {random.randrange(1, 25)}" for _ in range(4)
    }
    elsewhere.lost = {random.randrange(1, 25)}

    await world.request(**options)
    state = await world.end()

    expected = "failed" if is_open or elsewhere.refused else "completed"
    assert state.phase == expected, state.errors
    if state.phase == "completed":
        assert rows(world) == rows(await imported(lines, **options))
        assert rows(world)["agents"][0]["id"] == state.agent_ids[0]
        assert (state.agent_ids == [AGENT]) == (options["conflicts"] != "copy")
    else:
        assert state.errors
        assert all(not found for found in rows(world).values()), "nothing is left"


async def test_a_file_that_is_not_sound_writes_nothing() -> None:
    world = await imported(written(sound())[:-1])
    assert (await world.state()).phase == "failed"
    assert world.elsewhere.sent == []
    [row] = world.database.schema("api").rows("imports")
    assert (row["status"], row["completed_at"] is not None) == ("failed", True)


async def test_a_service_that_never_answers_ends_the_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ImportWorld(Random(0), written(sound()))
    world.elsewhere.lost = set(range(1, 40)) - {16, 17, 18, 19, 20, 21, 22, 23}
    await world.request()
    for _ in range(5):
        await world.attempt()
    assert (await world.state()).phase == "undoing"
    world.elsewhere.lost = set()
    state = await world.end()
    assert (state.phase, state.errors[0].entry) == ("failed", "import")
    assert "tried 5 times" in state.errors[0].message
    assert all(not found for found in rows(world).values())


async def test_attempts_that_fail_are_further_and_further_apart() -> None:
    world = ImportWorld(Random(0), written(sound()))
    world.elsewhere.lost = set(range(1, 100))
    await world.request()
    for _ in range(30):
        await world.attempt()
    assert (await world.state()).phase == "undoing"
    longest = imports.RETRY_SECONDS_MAX
    pauses = [pause for pause in world.clock.slept if pause != imports.UNDO_AGAIN_SECONDS]
    assert pauses[:4] == [imports.RETRY_SECONDS * count for count in (1, 2, 3, 4)]
    assert len(pauses) == 30, "no attempt follows another one at once"
    assert pauses[-1] == max(pauses) == longest


async def test_an_agent_of_another_organisation_is_in_the_way_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ImportWorld(Random(0), written(sound()))

    async def present(ids: Sequence[str]) -> set[str]:
        return {AGENT} & {*ids}

    async def usable(org: str, ids: Sequence[str]) -> set[str]:
        return set()

    async def agents(org: str, agent_ids: Sequence[str]) -> dict[str, Any]:
        return {}

    monkeypatch.setattr(world.elsewhere, "present", present)
    monkeypatch.setattr(world.elsewhere, "usable", usable)
    monkeypatch.setattr(world.elsewhere, "agents", agents)
    await world.request(conflicts="replace")
    state = await world.end()
    assert (state.phase, [error.entry for error in state.errors]) == ("failed", [AGENT])
    assert world.elsewhere.sent == [], "nothing is deleted, and nothing waited for"
    assert world.clock.slept == []


async def test_what_another_import_makes_at_the_same_time_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = ImportWorld(Random(0), written(sound()))
    elsewhere = world.elsewhere
    there = {ARCHIVE}

    async def present(ids: Sequence[str]) -> set[str]:
        return there & {*ids}

    async def coming(import_id: str, ids: Sequence[str]) -> set[str]:
        return there & {*ids}

    async def going_with(*_: Any) -> set[str]:
        return there  # it looks as if it were of an agent that was just deleted

    monkeypatch.setattr(elsewhere, "present", present)
    monkeypatch.setattr(elsewhere, "coming", coming)
    monkeypatch.setattr(elsewhere, "going_with", going_with)
    began = world.clock.monotonic()
    await world.request(conflicts="fail")
    state = await world.end()
    assert state.phase == "failed"
    [row] = world.database.schema("api").rows("imports")
    assert row["is_conflict"]
    assert [error.entry for error in state.errors] == [ARCHIVE]
    assert world.clock.monotonic() - began < import_transfer.GONE_SECONDS_MAX
    assert not any(isinstance(sent, AppendHistories) for sent in elsewhere.sent)


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("conflicts", ["fail", "replace", "merge", None])
async def test_an_agent_is_made_by_one_import_at_a_time(
    conflicts: str | None, *, is_open: bool
) -> None:
    world = ImportWorld(Random(0), written(sound()))
    at, unit = world.clock.now(), world.process().ports.repository.work(Context("test", org=ORG))
    other = await unit.load(AgentImport, derived_id("import", "another"))
    source, options = ImportSource(form="heeler"), ImportOptions()
    command = RequestImport(import_id=other.id, source=source, options=options)
    assert other.request(command, 0, at=at, actor="ada") is None
    agent = await unit.load(ImportedAgent, imported_agent_id(ORG, AGENT))
    agent.take(AGENT, other.id, at=at)
    if not is_open:
        other.cancel(at=at)
    await unit.commit()

    await world.request(conflicts=conflicts)
    state = await world.end()

    if not is_open:
        assert (state.phase, state.agent_ids) == ("completed", [AGENT])
        return
    assert (state.phase, [error.entry for error in state.errors]) == ("failed", [AGENT])
    [row] = [row for row in world.database.schema("api").rows("imports") if row["id"] == IMPORT]
    assert row["is_conflict"]
    assert world.elsewhere.sent == []


@pytest.mark.parametrize("said", [True, False, None])
def test_a_file_says_of_a_tool_whether_it_needs_an_approval_or_leaves_it_as_it_is(
    said: bool | None,
) -> None:
    tool = ToolState(id="tool-1", name="roll", default_requires_approval=said)
    assert ("default_requires_approval" in said_of(tool)) is (said is not None)
