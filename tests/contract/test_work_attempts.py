"""R42, the engine: work that ends its process is given up, after few attempts, and it alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from libs.bus.dead_letter_records import attempts_of_work, letter_id
from libs.bus.fair_semaphore import NoPlace
from libs.bus.suspect_quarantine import Quarantine
from libs.contracts.bus_messages import Context
from libs.eventstore.failed_messages.ports import DeadLetter
from libs.eventstore.ports import StoreUnavailable
from libs.work import leased_work
from libs.work.attempt_counts import ATTEMPTS_MAX, UNQUARANTINED_ATTEMPTS_MAX
from libs.work.work_lease import DueWork, WorkLease
from tests.contract.payments import IDS, ORG, WORK, Bank, Payments, nothing
from tests.contract.worlds import World
from tests.leased_work import finish, sweep
from tests.waiting import wait_for


@pytest.fixture
async def bank(world: World) -> AsyncIterator[Bank]:
    bank = Bank(world)
    yield bank
    for process in bank.processes:
        process.gate.set()
        await process.drain()


async def killed(process: Payments) -> None:
    """End a process as `kill -9` does: nothing of it reaches the store any more."""
    process.stopping = True
    await process.world.pass_time()


async def killed_by_attempt(bank: Bank, *, victim: DueWork = WORK) -> Payments:
    """Let a process begin what is due, and end when it begins an attempt at the victim."""
    process = bank.process()
    process.meanwhile = standing_still_at(victim, process)
    await process.sweep()
    await wait_for("the attempt", lambda: victim.id in process.attempts)
    await killed(process)
    return process


def standing_still_at(victim: DueWork, process: Payments) -> Callable[..., Awaitable[Any]]:
    """Have the attempts at a work stand still; those at others take no time."""

    async def stand_still(lease: WorkLease[DueWork]) -> None:
        if lease.work.id == victim.id:
            await process.gate.wait()

    return stand_still


async def letter(bank: Bank, work: DueWork = WORK) -> DeadLetter | None:
    """The dead letter of a work."""
    store = bank.world.store("reader").letters
    return await store.find(letter_id("ledger", attempts_of_work(work.id)))


class TestWorkThatKills:
    async def test_r42_it_ends_as_failed_after_five_deaths_with_a_dead_letter(
        self, bank: Bank
    ) -> None:
        bank.wanted.append(WORK)
        for _ in range(ATTEMPTS_MAX):
            process = await killed_by_attempt(bank)
            assert await letter(bank) is None
        last = bank.process()
        await sweep(last)
        assert last.attempts == [], "it is not attempted a sixth time"
        found = await letter(bank)
        assert found is not None
        assert (found.kind, found.name, found.attempts) == ("work", "ledger.payment", ATTEMPTS_MAX)
        assert (found.org, found.error_class) == (ORG, "ProcessDied")
        assert found.payload == {"work": "payment", "id": WORK.id}
        [reason] = last.reasons
        assert f"attempted {ATTEMPTS_MAX} times" in reason
        assert found.id in reason
        await sweep(bank.process())
        assert await process.payments() == 1, "its end is recorded, once"

    async def test_r42_the_attempt_that_its_commit_began_is_the_first_that_counts(
        self, bank: Bank
    ) -> None:
        first = bank.process()
        first.stand_still()
        await first.want(WORK)
        await first.under_way(1)
        await killed(first)
        for _ in range(ATTEMPTS_MAX - 1):
            await killed_by_attempt(bank)
        last = bank.process()
        await sweep(last)
        assert (last.attempts, len(last.reasons)) == ([], 1)

    async def test_r42_a_process_that_follows_another_counts_the_death_of_that(
        self, bank: Bank
    ) -> None:
        """It does not wait for the leases to run out (ADR 11)."""
        bank.wanted.append(WORK)
        for number in range(ATTEMPTS_MAX):
            process = Payments(bank.world, f"ledger-1/{number}", bank.wanted)
            bank.processes.append(process)
            await process.store.succeed()
            process.stand_still()
            await process.sweep()
            await rest(process)
            await process.under_way(1)
            process.stopping = True
        last = Payments(bank.world, "ledger-1/last", bank.wanted)
        await last.store.succeed()
        await last.sweep()
        await rest(last)
        await finish(last)
        assert (last.attempts, len(last.reasons)) == ([], 1)

    async def test_r42_of_ten_that_were_under_way_only_the_one_to_blame_is_given_up(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        works = [DueWork(f"account-{number}", f"org-{number}") for number in range(10)]
        guilty = works[7]
        bank.wanted += works
        monkeypatch.setattr("tests.contract.payments.PLACES", len(works))
        monkeypatch.setattr(Quarantine, "limit", lambda *_: None)  # its time is never up
        for _ in range(UNQUARANTINED_ATTEMPTS_MAX):
            process = bank.process()
            process.stand_still()
            await process.sweep()
            await process.under_way(len(works))
            await killed(process)
        for _ in range(ATTEMPTS_MAX - UNQUARANTINED_ATTEMPTS_MAX):
            await killed_by_attempt(bank, victim=guilty)
        last = bank.process()
        await sweep(last)
        assert await letter(bank, guilty) is not None
        for innocent in works:
            if innocent != guilty:
                assert await letter(bank, innocent) is None, innocent
                assert await last.payments(innocent) == 1, innocent

    async def test_r42_a_suspect_that_waits_for_quarantine_holds_no_place_and_is_not_counted(
        self, bank: Bank
    ) -> None:
        bank.wanted.append(WORK)
        for _ in range(UNQUARANTINED_ATTEMPTS_MAX):
            await killed_by_attempt(bank)
        process = bank.process()
        async with in_quarantine(process):
            await process.sweep()
            await wait_for("the suspect", lambda: process.ports.quarantine.waiting)
            assert process.places
            assert process.places.free == process.places.places
            other = DueWork("account-2", ORG)
            await process.want(other)
            await wait_for("the payment", lambda: process.payments(other))
            assert process.attempts == [other.id]
            await killed(process)
            for _ in range(ATTEMPTS_MAX - UNQUARANTINED_ATTEMPTS_MAX):
                await killed_by_attempt(bank)
            last = bank.process()
            await sweep(last)
            assert (last.attempts, len(last.reasons)) == ([], 1)

    async def test_no_more_suspects_wait_for_quarantine_than_may(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bank.wanted.append(WORK)
        for _ in range(UNQUARANTINED_ATTEMPTS_MAX):
            await killed_by_attempt(bank)
        monkeypatch.setattr(leased_work, "SUSPECTS_WAITING_MAX", 0)
        process = bank.process()
        await sweep(process)
        assert process.attempts == [], "it is left to a later sweep"
        monkeypatch.undo()
        await sweep(process)
        assert (process.attempts, await process.payments()) == ([WORK.id], 1)

    async def test_work_that_gets_further_each_time_is_not_given_up(self, bank: Bank) -> None:
        bank.wanted.append(WORK)
        for _ in range(2 * ATTEMPTS_MAX):
            process = bank.process()
            process.is_due_for_ever = True

            async def advance(lease: WorkLease[DueWork], process: Payments = process) -> None:
                pay = process.payment_into(lease.work)
                await lease.record(pay, release=False, advances=True)
                await process.gate.wait()

            process.meanwhile = advance
            await process.sweep()
            await wait_for("the attempt", lambda process=process: process.commits)
            await killed(process)
        assert await letter(bank) is None

    @pytest.mark.parametrize(
        "problem", [NoPlace("full"), StoreUnavailable("away"), asyncio.CancelledError()]
    )
    async def test_an_attempt_that_is_ended_from_outside_does_not_count(
        self, bank: Bank, problem: BaseException
    ) -> None:
        async def fail(_: object) -> None:
            raise problem

        bank.wanted.append(WORK)
        for _ in range(ATTEMPTS_MAX - 1):
            await killed_by_attempt(bank)
        process = bank.process()
        process.meanwhile = fail
        for _ in range(2 * ATTEMPTS_MAX):
            await process.sweep()
            await wait_for("its end", lambda: not process.tasks and not process.asides)
        assert len(process.attempts) == 2 * ATTEMPTS_MAX
        await killed_by_attempt(bank)
        last = bank.process()
        await sweep(last)
        assert (last.attempts, len(last.reasons)) == ([], 1), "those that counted still do"

    async def test_an_attempt_that_an_outage_ends_does_not_count_however_long_that_is(
        self, bank: Bank, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither its lease nor its count can be given back while the store is away."""

        async def lose_the_store(_: object) -> None:
            raise StoreUnavailable("away")

        bank.wanted.append(WORK)
        for _ in range(UNQUARANTINED_ATTEMPTS_MAX):
            await killed_by_attempt(bank)
        process = bank.process()
        process.meanwhile = lose_the_store
        for _ in range(2 * ATTEMPTS_MAX):
            with monkeypatch.context() as outage:
                for owner, name in (
                    (process.store, "release_lease"),
                    (process.store.letters, "uncount"),
                ):
                    outage.setattr(owner, name, away_at_first(getattr(owner, name)))
                await process.sweep()
                await rest(process)
                await finish(process)
            await bank.world.pass_time()
        assert len(process.attempts) == 2 * ATTEMPTS_MAX
        process.meanwhile = nothing
        await sweep(process)
        assert (process.reasons, await process.payments()) == ([], 1)

    async def test_a_process_that_stops_in_order_leaves_no_count(self, bank: Bank) -> None:
        bank.wanted.append(WORK)
        for _ in range(3 * ATTEMPTS_MAX):
            process = bank.process()
            process.stand_still()
            await process.sweep()
            await process.under_way(1)
            await process.drain()
        last = bank.process()
        await sweep(last)
        assert (last.attempts, await last.payments()) == ([WORK.id], 1)

    async def test_what_has_ended_otherwise_meanwhile_gets_no_dead_letter(self, bank: Bank) -> None:
        bank.wanted.append(WORK)
        for _ in range(ATTEMPTS_MAX):
            await killed_by_attempt(bank)
        last = bank.process()
        unit = last.ports.repository.work(Context(IDS.new("cancel"), org=ORG))
        await last.payment_into(WORK)(unit)
        await unit.commit()
        last.is_due_for_ever = True
        await sweep(last)
        assert len(last.reasons) == 1, "it was due when it was looked at"
        assert await letter(bank) is None

    async def test_after_its_end_the_same_work_begins_to_be_counted_anew(self, bank: Bank) -> None:
        bank.wanted.append(WORK)
        for _ in range(ATTEMPTS_MAX - 1):
            await killed_by_attempt(bank)
        await sweep(bank.process())
        for _ in range(ATTEMPTS_MAX - 1):
            process = bank.process()
            process.is_due_for_ever = True
            process.stand_still()
            await process.sweep()
            await process.under_way(1)
            await killed(process)
        assert await letter(bank) is None


class TestWorkThatFails:
    async def test_r42_it_ends_as_failed_after_five_bugs_and_its_letter_says_which(
        self, bank: Bank
    ) -> None:
        async def fail(_: object) -> None:
            raise RuntimeError("a bug")

        process = bank.process()
        process.meanwhile = fail
        bank.wanted.append(WORK)
        for number in range(1, ATTEMPTS_MAX + 1):
            assert await letter(bank) is None
            await process.sweep()
            await rest(process)
            await finish(process)
            assert len(process.attempts) == number
        found = await letter(bank)
        assert found is not None
        assert (found.attempts, found.error_class) == (ATTEMPTS_MAX, "RuntimeError")
        assert "a bug" in found.error_text
        assert len(process.reasons) == 1
        await sweep(process)
        assert len(process.attempts) == ATTEMPTS_MAX

    async def test_a_bug_behind_its_last_commit_does_not_count(self, bank: Bank) -> None:
        process = bank.process()

        async def fail_late(lease: WorkLease[DueWork]) -> None:
            await lease.record(process.payment_into(lease.work))
            raise RuntimeError("a bug")

        process.meanwhile = fail_late
        process.is_due_for_ever = True
        bank.wanted.append(WORK)
        for _ in range(2 * ATTEMPTS_MAX):
            await sweep(process)
        assert (len(process.attempts), process.reasons) == (2 * ATTEMPTS_MAX, [])


def away_at_first(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The same for somebody who finds the store away the first three times."""
    refusals = iter(range(3))

    async def answer_later(*values: Any, **named: Any) -> Any:
        if next(refusals, None) is not None:
            raise StoreUnavailable("away")
        return await call(*values, **named)

    return answer_later


async def rest(process: Payments) -> None:
    """Let the time go by that suspects rest, while a process renews its leases."""
    await process.world.pass_time()
    await process.store.renew_leases()


@asynccontextmanager
async def in_quarantine(process: Payments) -> AsyncIterator[None]:
    """Be the suspect that others of a process wait for."""
    ticket = await process.ports.quarantine.enter()
    try:
        yield
    finally:
        ticket.give_back()
