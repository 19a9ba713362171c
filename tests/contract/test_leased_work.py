"""Leased work: each piece by one process at a time, none forgotten, whatever dies in between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from libs.bus.unknown_version_delays import LEFT_ALONE_SECONDS
from libs.contracts.bus_messages import Context, NewerVersion
from libs.eventstore.ports import Fence, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from libs.work import work_lease
from libs.work.work_lease import DueWork, WorkLease
from tests.contract.ledger import Account
from tests.contract.payments import IDS, ORG, OTHER_ORG, WORK, Bank, Payments, nothing
from tests.contract.worlds import World
from tests.leased_work import finish, sweep
from tests.waiting import wait_for


@pytest.fixture
def bank(world: World) -> Bank:
    return Bank(world)


async def is_free(process: Payments, work: DueWork = WORK) -> bool:
    """Whether nobody holds the lease of a work, and nobody renews it."""
    await process.store.renew_leases()
    epoch = await process.store.take_lease(work.id)
    if epoch is not None:
        await process.store.release_lease(Fence(work.id, epoch))
    return epoch is not None


class TestLeasedWork:
    async def test_work_begins_when_its_commit_is_durable_and_gives_its_lease_back(
        self, bank: Bank
    ) -> None:
        one, other = bank.process(), bank.process()
        assert await one.want(WORK) is not None
        await finish(one)
        await sweep(other)
        assert (one.attempts, other.attempts) == ([WORK.id], [])
        assert (await one.payments(), one.commits) == (1, 1)
        assert await is_free(other)

    async def test_what_it_records_belongs_to_the_message_that_wanted_it(self, bank: Bank) -> None:
        one = bank.process()
        cause = Context("message-1", org=ORG, actor="user-7", correlation_id="for-1")
        unit = one.ports.repository.work(cause)
        one.begin_after_commit(WORK, unit)
        await unit.commit()
        await finish(one)
        metadata = (await one.store.load(WORK.id)).events[0].metadata
        assert (metadata["correlation_id"], metadata["actor"]) == ("for-1", "user-7")

    async def test_a_lease_that_was_given_back_with_the_outcome_is_not_given_back_again(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = bank.process()
        monkeypatch.setattr(one.store, "release_lease", failing(AssertionError("again")))
        await one.want(WORK)
        await finish(one)
        assert await one.payments() == 1

    async def test_a_lease_that_was_kept_with_an_outcome_is_given_back_in_the_end(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = bank.process(), bank.process()

        async def fail_after(lease: WorkLease[DueWork]) -> None:
            await lease.record(one.payment_into(WORK), release=False)
            raise StoreUnavailable("away")

        one.meanwhile = fail_after
        await one.want(WORK)
        await finish(one)
        assert await one.payments() == 1
        assert await is_free(other)

    async def test_a_lease_that_cannot_be_given_back_runs_out(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = bank.process(), bank.process()
        one.meanwhile = failing(StoreUnavailable("away"))
        with monkeypatch.context() as broken:
            broken.setattr(one.store, "release_lease", failing(StoreUnavailable("away")))
            await one.want(WORK)
            await finish(one)
        await bank.world.pass_time()
        await sweep(other)
        assert await other.payments() == 1

    async def test_it_waits_for_those_who_decide_about_the_same_aggregate(self, bank: Bank) -> None:
        one = bank.process()
        locks, about = one.ports.locks, "account-9"
        one.meanwhile = lambda lease: lease.record(
            one.payment_into(WORK), release=False, about=about
        )
        async with locks.hold(WORK.id):
            async with locks.hold(about):
                await one.want(WORK)
                await one.under_way(1)
                await wait_for("the wait", lambda: locks.queues[about].others)
                assert await one.payments() == 0
            await wait_for("the wait", lambda: locks.queues[WORK.id].others)
            assert one.commits == 1
        await finish(one)
        assert one.commits == 2

    async def test_work_whose_lease_held_is_begun_by_nobody_else(self, bank: Bank) -> None:
        one, other = bank.process(), bank.process()
        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        assert await other.want(WORK) is None
        await sweep(other)
        await one.sweep()
        assert (one.attempts, other.attempts) == ([WORK.id], [])
        one.gate.set()
        await finish(one)

    async def test_work_of_a_dead_process_goes_on_in_another(
        self, bank: Bank, caplog: pytest.LogCaptureFixture
    ) -> None:
        dead, other = bank.process(), bank.process()
        dead.stand_still()
        await dead.want(WORK)
        await dead.under_way(1)
        await bank.world.pass_time()
        await sweep(other)
        assert (other.attempts, await other.payments()) == ([WORK.id], 1)
        dead.gate.set()
        await finish(dead)
        assert await other.payments() == 1, "what it does after that changes nothing"
        assert "not recorded" not in caplog.text, "nor is it a bug"

    async def test_an_attempt_stops_when_its_lease_is_lost_and_not_at_the_first_sight(
        self, bank: Bank
    ) -> None:
        one = bank.process()
        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        one.leases_held({WORK.id})
        one.leases_held(set())
        await a_moment()
        assert one.is_under_way(WORK.id), "its last commit may have given the lease back"
        one.leases_held({WORK.id})
        one.leases_held(set())
        await a_moment()
        assert one.is_under_way(WORK.id)
        one.leases_held(set())
        await finish(one)
        assert (one.tasks, await one.payments()) == ({}, 0)

    async def test_attempts_that_lost_their_leases_stop_in_the_order_in_which_they_began(
        self, bank: Bank
    ) -> None:
        one, stopped = bank.process(), list[int]()
        for number in range(20):
            work = DueWork(f"account-{number}", ORG)
            lease = WorkLease(work, Fence(work.id, 1), one.ports, Context(IDS.new("want"), org=ORG))
            task: Any = SimpleNamespace(cancel=partial(stopped.append, number))
            one.tasks[lease] = task
        one.leases_held(set())
        one.leases_held(set())
        one.tasks.clear()
        assert stopped == [*range(20)], "the same in each simulated world of a seed"

    async def test_cancelled_work_ends_and_gives_its_lease_back(self, bank: Bank) -> None:
        one, other = bank.process(), bank.process()
        for process, work in ((one, WORK), (one, DueWork("account-2", ORG))):
            process.stand_still()
            await process.want(work)
        await one.under_way(2)
        one.cancel(WORK.id)
        await wait_for("its end", lambda: len(one.tasks) == 1)
        assert await is_free(other)
        assert one.is_under_way("account-2")
        await one.drain()

    async def test_what_another_process_has_cancelled_is_looked_for_once_more_however_many(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = bank.process()
        one.cancelled_somewhere()
        await finish(one)
        assert one.looks == 0, "nothing is done here"
        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        find, look = one.find_cancelled, asyncio.Event()

        async def slowly(orgs: list[str], ids: list[str]) -> Sequence[str]:
            found = await find(orgs, ids)
            assert orgs == [ORG]
            await look.wait()
            return found

        monkeypatch.setattr(one, "find_cancelled", slowly)
        one.cancelled_somewhere()
        await wait_for("the look", lambda: one.looks)
        one.cancelled.append(WORK.id)  # too late for this look
        for _ in range(5):
            one.cancelled_somewhere()
            await a_moment()
        look.set()
        await finish(one)
        assert (one.looks, await one.payments()) == (2, 0)

    async def test_a_look_that_fails_is_not_the_last(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = bank.process()
        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        with monkeypatch.context() as broken:
            broken.setattr(one, "find_cancelled", failing(StoreUnavailable("away")))
            one.cancelled_somewhere()
            await asyncio.gather(*one.asides)
        one.cancelled.append(WORK.id)
        one.cancelled_somewhere()
        await finish(one)
        assert one.tasks == {}

    async def test_after_a_version_conflict_it_is_decided_again(self, bank: Bank) -> None:
        one, other = bank.process(), bank.process()
        loads = 0

        async def pay(unit: UnitOfWork) -> None:
            nonlocal loads
            account = await unit.load(Account, WORK.id)
            loads += 1
            if loads == 1:
                await elsewhere(other)
            account.deposit(1)

        one.meanwhile = lambda lease: lease.record(pay, release=False)
        await one.want(WORK)
        await finish(one)
        versions = [event.version for event in (await one.store.load(WORK.id)).events]
        assert (loads, versions) == (2, [1, 2, 3, 4])

    async def test_conflicts_without_an_end_leave_the_work_to_a_later_sweep(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = bank.process()
        tries = 0

        async def conflicts(*_: Any) -> None:
            nonlocal tries
            tries += 1
            raise VersionConflict(WORK.id)

        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        with monkeypatch.context() as broken:
            broken.setattr(one.store, "commit", conflicts)
            one.gate.set()
            await finish(one)
        assert tries == work_lease.CONFLICT_RETRIES_MAX + 1
        await sweep(one)
        assert await one.payments() == 1

    @pytest.mark.parametrize("waits", [False, True])
    async def test_in_an_outage_the_outcome_waits_or_is_left_to_a_later_sweep(
        self,
        bank: Bank,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        waits: bool,
    ) -> None:
        one, other = bank.process(), bank.process()
        one.waits_for_store = waits
        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        outages = 0
        commit = one.store.commit

        async def is_away(*what: Any) -> int | None:
            nonlocal outages
            outages += 1
            if outages > 3:
                return await commit(*what)
            raise StoreUnavailable("away")

        with monkeypatch.context() as broken:
            broken.setattr(one.store, "commit", is_away)
            one.gate.set()
            await finish(one)
        assert (outages, await one.payments()) == ((4, 1) if waits else (1, 0))
        assert "ERROR" not in {record.levelname for record in caplog.records}
        assert await is_free(other)
        await sweep(other)
        assert (len(one.attempts), await one.payments()) == (1, 1)

    async def test_what_only_newer_processes_can_read_is_left_to_them_for_a_while(
        self, bank: Bank
    ) -> None:
        one, newer = bank.process(), bank.process()
        one.meanwhile = failing(NewerVersion("money.deposited 4"))
        await one.want(WORK)
        await finish(one)
        await sweep(one)
        assert len(one.attempts) == 1
        assert await is_free(newer)
        one.clock.seconds += LEFT_ALONE_SECONDS
        await sweep(one)
        assert len(one.attempts) == 2
        await sweep(newer)
        assert await newer.payments() == 1

    async def test_a_bug_is_logged_and_the_work_left_to_a_later_sweep(
        self, bank: Bank, caplog: pytest.LogCaptureFixture
    ) -> None:
        one = bank.process()
        one.meanwhile = failing(RuntimeError("a bug"))
        await one.want(WORK)
        await finish(one)
        assert "the payment account-1 is not recorded" in caplog.text
        one.meanwhile = nothing
        await sweep(one)
        assert (len(one.attempts), await one.payments()) == (2, 1)

    async def test_no_organisation_takes_all_places_and_the_rest_is_left_to_others(
        self, bank: Bank
    ) -> None:
        one, other = bank.process(), bank.process()
        one.stand_still()
        works = [DueWork(f"account-{number}", ORG) for number in range(4)]
        for work in works:
            await one.want(work)
            await asyncio.sleep(0)  # it takes its place before the next is wanted
        await one.under_way(2)
        assert one.has_room(OTHER_ORG)
        assert not one.has_room(ORG)
        await sweep(other)
        assert other.attempts == ["account-2", "account-3"]
        for number in range(2):
            await one.want(DueWork(f"other-{number}", OTHER_ORG))
            await asyncio.sleep(0)
        await one.under_way(3)
        assert one.places
        assert one.places.free == 0
        one.gate.set()
        await finish(one)
        assert one.places.free == 3

    async def test_work_that_waits_begins_as_soon_as_a_place_is_free(self, bank: Bank) -> None:
        one = bank.process()
        one.meanwhile = lambda _: asyncio.sleep(0.001)
        bank.wanted += [DueWork(f"account-{number}", ORG) for number in range(9)]
        await sweep(one)
        assert sorted(one.attempts) == [work.id for work in bank.wanted], "in one sweep"

    async def test_what_waits_for_a_place_in_an_outage_is_left_to_the_next_sweep(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = bank.process()
        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        with monkeypatch.context() as broken:
            broken.setattr(one, "due", failing(StoreUnavailable("away")))
            one.gate.set()
            await finish(one)
        bank.wanted.append(DueWork("account-2", ORG))
        await sweep(one)
        assert one.attempts == [WORK.id, "account-2"]

    async def test_an_attempt_that_records_nothing_is_not_repeated_at_once(
        self, bank: Bank
    ) -> None:
        one = bank.process()
        one.meanwhile = failing(StoreUnavailable("away"))
        bank.wanted += [DueWork(f"account-{number}", ORG) for number in range(3)]
        await sweep(one)
        assert sorted(one.attempts) == [work.id for work in bank.wanted]

    async def test_nor_is_one_that_commits_nothing(self, bank: Bank) -> None:
        one = bank.process()
        one.payment_into = lambda _: failing(None)  # type: ignore[method-assign]
        bank.wanted.append(WORK)
        await sweep(one)
        assert (one.attempts, one.commits) == ([WORK.id], 1)

    async def test_a_process_that_ends_waits_a_moment_and_leaves_the_rest_to_others_at_once(
        self, bank: Bank
    ) -> None:
        one, other = bank.process(), bank.process()
        one.stand_still()
        one.drain_seconds_max = 0.05
        quick = DueWork("account-2", OTHER_ORG)
        await one.want(WORK)
        await one.under_way(1)
        one.meanwhile = lambda _: asyncio.sleep(0.01)
        await one.want(quick)
        await one.drain()
        assert (await one.payments(), await one.payments(quick)) == (0, 1)
        assert (one.tasks, one.has_room(ORG)) == ({}, False)
        await one.sweep()
        assert await other.want(DueWork("account-3", ORG)) is not None
        await finish(other)
        await sweep(other)
        assert other.attempts == ["account-3", WORK.id]
        assert await other.payments() == 1

    async def test_a_commit_that_ends_after_the_drain_begins_nothing_and_keeps_no_lease(
        self, bank: Bank
    ) -> None:
        one, other = bank.process(), bank.process()
        unit = one.ports.repository.work(Context("late", org=ORG))
        one.begin_after_commit(WORK, unit)
        await one.drain()
        await unit.commit()
        await finish(one)
        assert one.attempts == []
        assert await is_free(other)

    async def test_an_attempt_that_is_cancelled_before_it_begins_gives_its_lease_back(
        self, bank: Bank
    ) -> None:
        one, other = bank.process(), bank.process()
        await one.want(WORK)
        await one.drain()
        assert (one.attempts, one.asides) == ([], set())
        assert await is_free(other)

    async def test_an_attempt_that_is_cancelled_as_it_gives_its_lease_back_gives_it_back(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = bank.process(), bank.process()
        release, calls = one.store.release_lease, 0

        async def slowly(fence: Fence, *, failed: bool) -> None:
            nonlocal calls
            calls += 1
            if calls == 1:
                await asyncio.Event().wait()
            await release(fence, failed=failed)

        one.stand_still()
        await one.want(WORK)
        await one.under_way(1)
        monkeypatch.setattr(one.store, "release_lease", slowly)
        one.cancel(WORK.id)
        await wait_for("the release", lambda: calls)
        await one.drain()
        assert await is_free(other)

    async def test_a_commit_that_wants_two_works_begins_one_and_leaves_the_other_to_a_sweep(
        self, bank: Bank
    ) -> None:
        one, other = bank.process(), bank.process()
        works = [WORK, DueWork("account-2", ORG)]
        unit = one.ports.repository.work(Context("both", org=ORG))
        for work in works:
            one.begin_after_commit(work, unit)
        await unit.commit()
        await finish(one)
        assert one.attempts == [WORK.id]
        bank.wanted += works
        await sweep(other)
        assert [await other.payments(work) for work in works] == [1, 1]
        assert await is_free(other)

    async def test_the_end_of_an_attempt_does_not_hide_the_next_one_at_the_same_work(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one = bank.process()
        one.stand_still()

        async def record_first(lease: WorkLease[DueWork]) -> None:
            await lease.record(one.payment_into(lease.work))
            await one.gate.wait()

        unit = one.ports.repository.work(Context("first", org=ORG))
        one.begin_after_commit(WORK, unit, record_first)
        await unit.commit()
        await wait_for("its payment", one.payments)
        one.gate, gate = asyncio.Event(), one.gate
        assert await one.want(WORK) is not None, "the lease is free"
        await one.under_way(1)
        gate.set()
        await wait_for("the end of the first", lambda: len(one.tasks) == 1)
        assert one.is_under_way(WORK.id)
        await one.drain()
        assert one.tasks == {}


async def a_moment() -> None:
    """Let go on what can."""
    for _ in range(10):
        await asyncio.sleep(0)


def failing(problem: Exception | None) -> Callable[..., Awaitable[Any]]:
    """Something that fails, or at least does nothing."""

    async def fail(*_: Any, **__: Any) -> None:
        if problem is not None:
            raise problem

    return fail


async def elsewhere(process: Payments) -> None:
    """Pay into the account in another process."""
    unit = process.ports.repository.work(Context(IDS.new("elsewhere"), org=ORG))
    await process.payment_into(WORK)(unit)
    await unit.commit()
