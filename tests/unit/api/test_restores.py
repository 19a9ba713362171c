"""Restores of an agent: whole or not at all, whichever process dies."""

from __future__ import annotations

from random import Random

import pytest

from libs.contracts.agent.agents import AttachBlock, DetachBlock, RestoreConfiguration
from libs.contracts.agent.compaction import ReplaceContext
from libs.contracts.api.restores import RestoredPart
from libs.contracts.bus_messages import (
    CONFLICT,
    NOT_FOUND,
    UNPROCESSABLE,
    Accepted,
    Command,
    Rejected,
)
from libs.contracts.memory.blocks import CreateBlocks, RestoreBlock
from services.api.adapters.agents.past_reads import MomentUnavailable, NoSuchMoment
from services.api.domain import agent_restore
from services.api.engine import restores
from tests.unit.api.restore_world import RestoreWorld

PARTS: list[RestoredPart] = ["blocks", "configuration", "context"]
SEEDS = 100
REFUSED: list[type[Command] | None] = [
    None,
    None,
    ReplaceContext,
    RestoreConfiguration,
    RestoreBlock,
    CreateBlocks,
    AttachBlock,
    DetachBlock,
]


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_restore_is_whole_or_nothing_whatever_dies_or_is_refused(seed: int) -> None:
    random = Random(seed)
    world = RestoreWorld(random)
    elsewhere = world.elsewhere
    world.live(random.randrange(1, 25))
    cut = random.randrange(len(elsewhere.commits))
    world.live(random.randrange(15))
    wanted, before = elsewhere.commits[cut], elsewhere.newest
    what = random.sample(PARTS, random.randrange(1, 4))
    elsewhere.dies = {
        f"{random.choice(['before', 'after'])} {random.randrange(1, 25)}" for _ in range(4)
    }
    refused = elsewhere.refused = random.choice(REFUSED)
    history = list(elsewhere.commits)

    await world.request(cut, what)
    await world.end()

    status = world.row()["status"]
    assert status in ("completed", "failed")
    expected = wanted if status == "completed" else before
    for part in PARTS:
        assert elsewhere.newest.of(part) == (expected if part in what else before).of(part)
    assert elsewhere.commits[: len(history)] == history, "nothing is erased"
    assert (status == "failed") == (refused is not None and elsewhere.refused is None)


async def test_the_same_request_and_the_same_moment_again_change_nothing() -> None:
    world = RestoreWorld(Random(7))
    world.live(20)
    await world.request(3, PARTS)
    await world.end()
    commits = len(world.elsewhere.commits)

    assert isinstance(await world.request(3, PARTS), Accepted)
    assert (await world.state()).phase == "none", "it has ended"
    await world.request(3, PARTS, "restore-2")
    await world.end()

    assert len(world.elsewhere.commits) == commits
    assert world.row("restore-2")["status"] == "completed"


async def test_one_restore_of_an_agent_is_under_way_at_a_time() -> None:
    world = RestoreWorld(Random(7))
    world.live(5)
    await world.request(1, PARTS)

    other = await world.request(2, PARTS, "restore-2")

    assert isinstance(other, Rejected)
    assert other.code == CONFLICT


async def test_what_is_refused_first_is_not_undone() -> None:
    world = RestoreWorld(Random(3))
    world.live(10)
    world.elsewhere.refused = ReplaceContext
    await world.request(2, PARTS)

    await world.end()

    assert (world.row()["status"], world.row()["code"]) == ("failed", CONFLICT)
    assert [type(command) for command in world.elsewhere.sent] == [ReplaceContext]


async def test_a_part_that_is_always_in_trouble_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = RestoreWorld(Random(3))
    world.live(10)
    monkeypatch.setattr(agent_restore, "ATTEMPTS_MAX", 3)
    real = world.elsewhere.carry_out

    def carry_out(command: Command) -> None:
        if len(world.elsewhere.sent) < 7:
            raise RuntimeError("a bug")
        real(command)

    monkeypatch.setattr(world.elsewhere, "carry_out", carry_out)
    before = world.elsewhere.newest
    await world.request(2, PARTS)

    await world.end()

    pauses = [restores.RETRY_SECONDS * count for count in (1, 2, 3)]
    assert world.clock.slept[:3] == pauses, "no attempt follows another one at once"
    assert world.row()["code"] == "unavailable"
    assert "tried 3 times" in world.row()["reason"]
    assert [world.elsewhere.newest.of(part) for part in PARTS] == [
        before.of(part) for part in PARTS
    ]


TOO_LONG = MomentUnavailable(Rejected(code=UNPROCESSABLE, reason="the history is too long"))


@pytest.mark.parametrize(
    ("problem", "code"), [(TOO_LONG, UNPROCESSABLE), (NoSuchMoment("erased"), NOT_FOUND)]
)
async def test_what_can_never_be_shown_ends_a_restore_at_once(
    problem: Exception, code: str
) -> None:
    world = RestoreWorld(Random(3))
    world.live(20)
    before = world.elsewhere.newest
    world.elsewhere.not_shown = {2: problem}
    await world.request(2, ["configuration", "blocks"])

    await world.end(attempts_max=2)

    assert (world.row()["status"], world.row()["code"]) == ("failed", code)
    assert world.elsewhere.newest.configuration == before.configuration, "it is undone"
    assert world.clock.slept == [], "nothing was waited for"


@pytest.mark.parametrize("problem", [TOO_LONG, NoSuchMoment("erased")])
async def test_an_undo_of_what_can_never_be_shown_ends(problem: Exception) -> None:
    world = RestoreWorld(Random(3))
    world.live(20)
    world.elsewhere.refused = DetachBlock
    world.elsewhere.not_shown = {len(world.elsewhere.commits) - 1: problem}
    await world.request(2, ["configuration", "blocks"])

    await world.end(attempts_max=2)

    assert (world.row()["status"], world.row()["code"]) == ("failed", CONFLICT)
    assert isinstance(await world.request(2, ["configuration"], "restore-2"), Accepted)
