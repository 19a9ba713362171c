"""Reconciliation: what a delete has left is found and mended, in memory as in Postgres and over
NATS, whatever fails meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from libs.bus.ports import Bus, BusUnavailable
from libs.contracts.bus_messages import NOT_FOUND, Accepted, Command, NewerVersion, Rejected
from libs.eventstore.ports import StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from libs.work import reconciliation
from libs.work.reconciliation import (
    LATE_SECONDS,
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    Reconciliation,
    send_correction,
)
from tests.clock_and_ids import CountingIds, ManualClock
from tests.contract.ledger import AT, Account, AccountOpened, Deposit, context, project
from tests.contract.wires import Ledger, Wires
from tests.contract.worlds import World

LOOK_AT_ALL_SECONDS = 60.0

type Step = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """Let the look go on."""


class FillAccounts(Reconciliation[str]):
    """No account is left without money: a toy whose owners are accounts of the ledger. `before`
    runs in each look, after what was noted has been taken up."""

    name = "accounts without money"
    batch_max = 3

    def __init__(self, world: World) -> None:
        self.time = ManualClock()
        super().__init__(self.time)
        self.world = world
        self.repository = Repository(world.store(), "ledger", project)
        self.before: Step = nothing
        self.refused: set[str] = set()
        self.looks: list[list[str] | None] = []

    async def find(self, keys: list[str] | None) -> Sequence[str]:
        self.looks.append(keys)
        await self.before()
        empty = await self.empty()
        return [key for key in empty if keys is None or key in keys][: int(self.batch_max)]

    async def mend(self, item: str) -> bool:
        if item in self.refused:
            return False
        work = self.repository.work(context(f"fill-{item}"))
        (await work.load(Account, item)).deposit(1)
        await work.commit()
        return True

    async def open(self, *account_ids: str) -> None:
        """Open accounts without money."""
        for account_id in account_ids:
            work = self.repository.work(context(f"open-{account_id}"))
            (await work.load(Account, account_id)).record(AccountOpened, at=AT, owner="Ada")
            await work.commit()

    async def empty(self) -> list[str]:
        """The accounts that have no money."""
        return [row["id"] for row in await self.world.rows() if not row["fields"].get("last")]

    async def started(self) -> FillAccounts:
        """The same after its first look at everybody."""
        await self.sweep()
        self.looks.clear()
        return self


class TestReconciliation:
    """What every store keeps of it."""

    async def test_a_process_looks_at_everybody_when_it_starts(self, world: World) -> None:
        policy = FillAccounts(world)
        await policy.open("a", "b")
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([None], [])

    async def test_only_suspects_are_looked_at_between(self, world: World) -> None:
        policy = await FillAccounts(world).started()
        await policy.open("a", "b")
        await policy.sweep()
        assert policy.looks == [], "nobody is suspected"
        policy.suspect("b")
        await policy.sweep()
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([["b"]], ["a"])

    async def test_nobody_is_looked_at_because_time_has_passed(self, world: World) -> None:
        policy = await FillAccounts(world).started()
        policy.time.seconds += 1_000_000.0
        await policy.sweep()
        assert policy.looks == []

    async def test_an_event_has_its_aggregate_looked_at_and_once_more_later(
        self, world: World
    ) -> None:
        policy = await FillAccounts(world).started()
        event = AccountOpened(originator_id="a", originator_version=1, timestamp=AT, owner="Ada")
        await policy.look_at(event, context("m1"))
        await policy.sweep()
        assert policy.looks == [["a"]]
        await policy.open("a")  # by a commit that had begun before the event
        policy.time.seconds += LATE_SECONDS
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([["a"], ["a"]], [])

    async def test_what_becomes_due_by_the_clock_is_looked_at_now_and_then(
        self, world: World
    ) -> None:
        policy = await FillAccounts(world).started()
        policy.every_seconds = LOOK_AT_ALL_SECONDS
        policy.look_at_all_at = policy.time.monotonic() + LOOK_AT_ALL_SECONDS
        await policy.open("a")
        policy.time.seconds += LOOK_AT_ALL_SECONDS - 1
        await policy.sweep()
        assert await policy.empty() == ["a"]
        policy.time.seconds += 1
        await policy.sweep()
        assert await policy.empty() == []

    async def test_a_look_by_the_clock_leaves_suspects_to_the_next(self, world: World) -> None:
        policy = await FillAccounts(world).started()
        policy.every_seconds, policy.look_at_all_at = LOOK_AT_ALL_SECONDS, policy.time.monotonic()
        policy.suspect("a")
        await policy.sweep()
        assert (policy.by_clock, policy.looks) == (True, [None])
        await policy.sweep()
        assert policy.looks == [None, ["a"]]

    async def test_what_fails_when_everybody_is_looked_at_is_not_left_to_the_clock(
        self, world: World
    ) -> None:
        policy = FillAccounts(world)
        policy.every_seconds = LOOK_AT_ALL_SECONDS
        await policy.open("a")
        policy.refused = {"a"}
        await policy.sweep()
        policy.refused = set()
        policy.time.seconds += LOOK_AT_ALL_SECONDS
        await policy.sweep()
        assert (policy.by_clock, await policy.empty()) == (False, [])

    async def test_who_takes_over_from_a_dead_process_looks_at_everybody_twice(
        self, world: World
    ) -> None:
        policy = await FillAccounts(world).started()
        await policy.open("a")
        policy.look_at_all_twice()
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([None], [])
        await policy.open("b")  # by a commit that had begun before
        await policy.sweep()
        assert await policy.empty() == ["b"]
        policy.time.seconds += LATE_SECONDS
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([None, None], [])

    async def test_an_event_in_the_middle_of_a_look_is_followed_by_another(
        self, world: World
    ) -> None:
        policy = FillAccounts(world)
        await policy.open("a")

        async def event() -> None:
            policy.before = nothing
            policy.look_at_all()
            policy.suspect("b")

        policy.before = event
        await policy.sweep()
        await policy.open("b")
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([None, None], [])

    async def test_a_commit_that_comes_late_is_looked_at(self, world: World) -> None:
        policy = await FillAccounts(world).started()
        policy.suspect_later("a")
        policy.suspect_later("b")
        policy.suspects_later.pop("b", None)  # its commit is known
        await policy.open("a", "b")
        policy.time.seconds += LATE_SECONDS - 1
        await policy.sweep()
        assert policy.looks == []
        policy.time.seconds += 1
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([["a"]], ["b"])

    async def test_more_than_a_batch_is_mended_bit_by_bit(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reconciliation, "BATCHES_MAX", 2)
        policy = await FillAccounts(world).started()
        names = [f"account-{number}" for number in range(8)]
        await policy.open(*names)
        for name in names:
            policy.suspect(name)
        await policy.sweep()
        assert len(await policy.empty()) == 2, "others have their turn"
        await policy.sweep()
        assert await policy.empty() == []
        await policy.sweep()
        assert policy.looks == [names] * 3

    @pytest.mark.parametrize("problem", [StoreUnavailable("away"), BusUnavailable("away")])
    @pytest.mark.parametrize("suspects", [["a"], None], ids=["suspects", "everybody"])
    async def test_what_fails_is_tried_again_after_a_pause_that_grows(
        self, world: World, problem: Exception, suspects: list[str] | None
    ) -> None:
        policy = FillAccounts(world)
        if suspects:
            await policy.started()
            policy.suspect("a")
        await policy.open("a")

        async def outage() -> None:
            raise problem

        policy.before = outage
        for tries in range(1, 8):
            await policy.sweep()
            await policy.sweep()  # it is paused
            assert policy.looks == [suspects] * tries
            policy.time.seconds += min(RETRY_SECONDS * 2 ** (tries - 1), RETRY_SECONDS_MAX)
        policy.before = nothing
        await policy.sweep()
        assert await policy.empty() == []
        assert policy.retry_seconds == RETRY_SECONDS
        policy.suspect("a")
        await policy.sweep()
        assert policy.looks[-1] == ["a"], "nothing is paused any more"

    async def test_one_that_is_refused_keeps_no_other_and_is_tried_again(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        policy = FillAccounts(world)
        await policy.open("a", "b")
        policy.refused = {"a"}
        with caplog.at_level(logging.WARNING, reconciliation.__name__):
            await policy.sweep()
        assert await policy.empty() == ["a"]
        assert "1 of 2 are left, first a" in caplog.text
        policy.refused = set()
        policy.time.seconds += RETRY_SECONDS
        await policy.sweep()
        assert await policy.empty() == []

    async def test_a_conflict_with_another_process_is_tried_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        policy, other = FillAccounts(world), FillAccounts(world)
        await policy.open("a")

        async def mend_too_late(item: str) -> bool:
            work = policy.repository.work(context("slow"))
            (await work.load(Account, item)).deposit(1)
            await other.mend(item)
            await work.commit()
            return True

        with monkeypatch.context() as slow:
            slow.setattr(policy, "mend", mend_too_late)
            await policy.sweep()
        policy.time.seconds += RETRY_SECONDS
        await policy.sweep()
        assert policy.looks == [None, None]
        assert await policy.empty() == []

    @pytest.mark.parametrize(
        "problem",
        [VersionConflict("a"), NewerVersion("account.opened 9"), ZeroDivisionError()],
        ids=lambda problem: type(problem).__name__,
    )
    async def test_one_that_fails_keeps_no_other_and_is_tried_again(
        self, world: World, monkeypatch: pytest.MonkeyPatch, problem: Exception
    ) -> None:
        policy = FillAccounts(world)
        await policy.open("a", "b")
        mend = policy.mend

        async def fail_for_first(item: str) -> bool:
            if item == "a":
                raise problem
            return await mend(item)

        with monkeypatch.context() as broken:
            broken.setattr(policy, "mend", fail_for_first)
            await policy.sweep()
        assert await policy.empty() == ["a"]
        policy.time.seconds += RETRY_SECONDS
        await policy.sweep()
        assert await policy.empty() == []

    async def test_a_bug_forgets_no_suspect(self, world: World) -> None:
        policy = await FillAccounts(world).started()
        await policy.open("a")
        policy.suspect("a")

        async def bug() -> None:
            policy.before = nothing
            raise ZeroDivisionError

        policy.before = bug
        with pytest.raises(ZeroDivisionError):
            await policy.sweep()
        await policy.sweep()
        assert await policy.empty() == ["a"], "it is paused: a bug stays for a while"
        policy.time.seconds += RETRY_SECONDS
        await policy.sweep()
        assert await policy.empty() == []

    async def test_too_many_suspects_are_everybody(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reconciliation, "SUSPECTS_MAX", 3)
        policy = await FillAccounts(world).started()
        await policy.open("a")
        for name in ("b", "c", "d", "e"):
            policy.suspect_later(name)
        assert policy.suspects == {"b"}, "it would have been the first"
        for name in ("f", "g", "h"):
            policy.suspect(name)
        assert policy.suspects == set()
        await policy.sweep()
        assert (policy.looks, await policy.empty()) == ([None], [])


class TestCorrections:
    """What every bus keeps of them."""

    async def test_a_correction_has_its_effect(self, wires: Wires) -> None:
        ledger = Ledger()
        await wires.process(ledger.serve)
        bus, ids = await wires.process(), CountingIds()
        assert await send_correction(bus, ids, Deposit(account_id="a", cents=5), "org-1")
        assert await send_correction(bus, ids, Deposit(account_id="a", cents=6), "org-1")
        assert await ledger.cents("a") == [5, 6], "each is a command of its own"

    async def test_a_correction_of_what_is_gone_is_none(self, wires: Wires) -> None:
        bus = await served(wires, Rejected(code=NOT_FOUND, reason="it is gone"))
        assert await send_correction(bus, CountingIds(), Deposit(account_id="a", cents=5), "org-1")

    async def test_a_refused_correction_is_logged_and_not_done(
        self, wires: Wires, caplog: pytest.LogCaptureFixture
    ) -> None:
        await wires.process(Ledger().serve)
        bus = await wires.process()
        with caplog.at_level(logging.WARNING, reconciliation.__name__):
            command = Deposit(account_id="a", cents=-5)
            assert not await send_correction(bus, CountingIds(), command, "org-1")
        assert "-5 cents are no deposit" in caplog.text


async def served(wires: Wires, reply: Accepted | Rejected) -> Bus:
    """A bus on which the ledger answers everything so."""

    async def handler(command: Command, work: UnitOfWork) -> Accepted | Rejected:
        return reply

    await wires.process(Ledger(handler).serve)
    return await wires.process()
