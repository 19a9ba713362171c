"""Bugs that are planted into progress and reconciliation: a test of their contract finds each. The
simulator has others of them (`tests/sim`)."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from libs.bus.ports import Bus, Clock, Ids
from libs.contracts.bus_messages import Command, Context
from libs.work import progress, reconciliation
from libs.work.progress import HEARTBEAT, Look, Progress, ProgressMessage, publish_progress
from libs.work.reconciliation import NotMended, Reconciliation
from tests.contract import test_progress, test_reconciliation
from tests.contract.planted_bugs import Planted
from tests.contract.wires import MemoryWires
from tests.contract.worlds import MemoryWorld


@asynccontextmanager
async def endless_heartbeats(bus: Bus, clock: Clock, subject: str) -> AsyncIterator[None]:
    """Heartbeats that go on when the work has ended."""

    async def beat() -> None:
        while True:
            await publish_progress(bus, subject, HEARTBEAT)
            await clock.sleep(progress.HEARTBEAT_SECONDS)

    FORGOTTEN.append(asyncio.create_task(beat()))
    yield


@asynccontextmanager
async def one_heartbeat(bus: Bus, clock: Clock, subject: str) -> AsyncIterator[None]:
    """One heartbeat, when the work begins."""
    await publish_progress(bus, subject, HEARTBEAT)
    yield


async def heartbeat_or_end(followed: Progress) -> ProgressMessage | None:
    """The next message, whatever it is."""
    return await followed.next(progress.GIVE_UP_SECONDS)


async def first_message(followed: Progress, look: Look) -> ProgressMessage:
    """The first message, be it a heartbeat."""
    message = await followed.next(progress.LOOK_SECONDS)
    return (await look() if message is None else message) or LOST


async def end_unless_silence(followed: Progress, look: Look) -> ProgressMessage:
    """The end that is heard; after a silence the work is taken for lost."""
    return await followed.end_or_silence() or LOST


async def end_after_one_look(followed: Progress, look: Look) -> ProgressMessage:
    """The end that is heard, or what the row says after the first silence."""
    return await followed.end_or_silence() or await look() or LOST


async def first_batch(policy: Reconciliation[Any], keys: list[str] | None) -> bool:
    """Mend one batch, and take that for all."""
    for item in await policy.find(keys):
        await policy.mend(item)
    return True


async def until_refused(policy: Reconciliation[Any], keys: list[str] | None) -> bool:
    """Mend as far as the first item that is refused."""
    for item in await policy.find(keys):
        if not await policy.mend(item):
            raise NotMended
    return True


async def send_and_forget(bus: Bus, ids: Ids, command: Command, org: str) -> bool:
    """Send a correction, and take it for done."""
    await bus.request(command, Context(ids.new("sweep"), org=org))
    return True


def pause_for_ever(policy: Reconciliation[Any]) -> None:
    """Never try again what has failed once."""
    policy.retry_at = math.inf


real_sweep = Reconciliation.sweep


async def deaf_sweep(policy: Reconciliation[Any]) -> None:
    """Note after the look, and not before it, when everybody is to be looked at again."""
    due = policy.clock.monotonic() >= policy.look_at_all_at
    await real_sweep(policy)
    if due:
        policy.look_at_all_at = policy.clock.monotonic() + policy.every_seconds


LOST: ProgressMessage = {"result": "nobody knows"}
FORGOTTEN: list[asyncio.Task[None]] = []
IN_PROGRESS = test_progress.TestProgress()
IN_RECONCILIATION = test_reconciliation.TestReconciliation()

PLANTED = {
    "heartbeats-after-the-end": Planted(
        IN_PROGRESS.test_no_heartbeat_follows_the_end_of_the_work,
        [(test_progress, "heartbeats", endless_heartbeats)],
    ),
    "one-heartbeat": Planted(
        IN_PROGRESS.test_work_without_a_row_is_lost_after_a_silence,
        [(test_progress, "heartbeats", one_heartbeat)],
    ),
    "heartbeat-ends-the-work": Planted(
        IN_PROGRESS.test_a_follower_gets_the_end_and_no_heartbeat,
        [(Progress, "end", first_message)],
    ),
    "silence-ends-the-work": Planted(
        IN_PROGRESS.test_an_end_that_was_published_to_nobody_is_read_from_the_row,
        [(Progress, "end", end_unless_silence)],
    ),
    "row-is-looked-at-once": Planted(
        IN_PROGRESS.test_an_end_that_was_published_to_nobody_is_read_from_the_row,
        [(Progress, "end", end_after_one_look)],
    ),
    "heartbeat-ends-work-without-a-row": Planted(
        IN_PROGRESS.test_the_end_of_work_without_a_row_is_heard,
        [(Progress, "end_or_silence", heartbeat_or_end)],
    ),
    "only-the-first-batch": Planted(
        IN_RECONCILIATION.test_more_than_a_batch_is_mended_bit_by_bit,
        [(Reconciliation, "mend_batches", first_batch)],
    ),
    "refused-item-keeps-others": Planted(
        IN_RECONCILIATION.test_one_that_is_refused_keeps_no_other_and_is_tried_again,
        [(Reconciliation, "mend_batches", until_refused)],
    ),
    "event-in-a-look-is-missed": Planted(
        IN_RECONCILIATION.test_an_event_in_the_middle_of_a_look_is_followed_by_another,
        [(Reconciliation, "sweep", deaf_sweep)],
    ),
    "not-looked-at-again": Planted(
        IN_RECONCILIATION.test_a_bug_forgets_no_suspect,
        [(Reconciliation, "look_again", lambda policy, suspects: None)],
    ),
    "not-looked-at-later": Planted(
        IN_RECONCILIATION.test_a_commit_that_comes_late_is_looked_at,
        [(Reconciliation, "suspect_later", Reconciliation.suspect)],
    ),
    "refused-is-mended": Planted(
        test_reconciliation.TestCorrections().test_a_refused_correction_is_logged_and_not_done,
        [(test_reconciliation, "send_correction", send_and_forget)],
    ),
    "failed-for-ever": Planted(
        lambda world: IN_RECONCILIATION.test_what_fails_is_tried_again_after_a_pause_that_grows(
            world, reconciliation.BusUnavailable("away"), ["a"]
        ),
        [(Reconciliation, "pause", pause_for_ever)],
    ),
    "no-pause-after-a-failure": Planted(
        lambda world: IN_RECONCILIATION.test_what_fails_is_tried_again_after_a_pause_that_grows(
            world, reconciliation.StoreUnavailable("away"), None
        ),
        [(Reconciliation, "pause", lambda policy: None)],
    ),
}


@pytest.fixture(autouse=True)
def short_silences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.5)
    monkeypatch.setattr(progress, "GIVE_UP_SECONDS", 0.6)


@pytest.mark.parametrize("name", PLANTED)
async def test_the_contract_finds_a_planted_bug(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    planted = PLANTED[name]
    given = {"monkeypatch": monkeypatch, "caplog": caplog}
    wants_store = planted.patches[0][0] is Reconciliation
    world = MemoryWorld() if wants_store else MemoryWires()
    await with_fixtures(planted.found_by, world, given)  # without the bug it passes
    for target, attribute, value in planted.patches:
        monkeypatch.setattr(target, attribute, value)
    world = type(world)()
    with pytest.raises((AssertionError, TimeoutError)):
        await with_fixtures(planted.found_by, world, given)
    for task in FORGOTTEN:
        task.cancel()
    FORGOTTEN.clear()


async def with_fixtures(
    test: Callable[..., Awaitable[None]], world: object, given: dict[str, object]
) -> None:
    """Call a test with its world, and with those of these fixtures that it wants."""
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    await test(world, **{name: value for name, value in given.items() if name in wanted})
