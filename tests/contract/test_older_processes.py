"""What only newer processes of a service can read is left to them, and is nobody's fault."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from libs.bus import event_consumer as consumers
from libs.bus import unknown_version_delays
from libs.bus.clock_and_ids import SystemClock
from libs.bus.event_consumer import EventConsumer
from libs.bus.ports import Bus, BusUnavailable, IncomingCommand, outgoing
from libs.bus.service_host import Service
from libs.contracts.bus_messages import Accepted, Context, Event
from libs.eventstore.event_decoding import UnknownEvent
from libs.eventstore.in_memory import InMemoryEventStore
from libs.eventstore.ports import Commit
from libs.eventstore.unit_of_work import Repository, UnitOfWork
from tests.contract.ledger import (
    AccountOpened,
    Deposit,
    MoneyDeposited,
    context,
    deposit,
    deposited,
    opened,
    project,
)
from tests.contract.poisoned_ledger import Poisoned
from tests.contract.wires import Wires
from tests.waiting import wait_for


async def cannot_read(command: Deposit, work: UnitOfWork) -> Accepted:
    """The handler of an older process, about an account with an event that it does not know."""
    raise UnknownEvent("ledger.account.frozen version 1")


async def beside_an_older_process(wires: Wires) -> Poisoned:
    newer = Poisoned(deposit)
    older = Poisoned(cannot_read, newer.database)
    await wires.process(older.serve)
    await wires.process(newer.serve)
    return newer


async def test_what_an_older_process_cannot_read_a_newer_one_decides(
    wires: Wires, caplog: pytest.LogCaptureFixture
) -> None:
    unknown_version_delays.say.cache_clear()
    newer = await beside_an_older_process(wires)
    client = await wires.process()
    with caplog.at_level(logging.INFO):
        for number in range(1, 21):
            command = Deposit(account_id=f"a{number}", cents=number)
            reply = await client.request(command, context(f"m{number}"))
            assert reply == Accepted(result={"cents": number})
    assert newer.letters() == []
    assert all(row["attempts"] <= 1 for row in newer.counted()), "nothing was counted"
    said = [record for record in caplog.records if "ledger.account.frozen" in record.getMessage()]
    assert [record.levelname for record in said] == ["WARNING"]


async def test_what_no_process_can_read_is_given_up_in_time_and_not_parked(wires: Wires) -> None:
    ledger = Poisoned(cannot_read)
    await wires.process(ledger.serve)
    client = await wires.process()
    with pytest.raises(BusUnavailable):
        await client.request(Deposit(account_id="a", cents=1), context("m1"), seconds_max=1.5)
    assert ledger.letters() == []
    assert all(row["attempts"] <= 1 for row in ledger.counted())


@pytest.mark.parametrize("newer_by", ["name", "version"])
async def test_a_command_that_a_process_does_not_know_is_left_to_newer_ones(
    wires: Wires, newer_by: str
) -> None:
    ledger = Poisoned(deposit)
    await wires.process(ledger.serve)
    client = await wires.process()
    sent = outgoing(Deposit(account_id="a", cents=1), context("m1"))
    newer: dict[str, IncomingCommand] = {
        "name": replace(sent, name="ledger.money.levitate"),
        "version": replace(sent, schema_version=2),
    }
    with pytest.raises(BusUnavailable):
        await client.resend(newer[newer_by], seconds_max=1.5)
    assert ledger.letters() == []
    assert await client.resend(sent) == Accepted(result={"cents": 1}), "it had no effect before"


async def test_a_consumer_leaves_an_event_that_it_cannot_read_to_a_newer_one(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.02)
    ledger = Poisoned(deposit)
    await ledger.store.commit(Commit([opened("a"), deposited("a", 2, '{"cents":1}', 4)]))
    await ledger.store.number_log()
    seen: list[str] = []

    async def react(event: Event, cause: Context) -> None:
        seen.append(event.topic)

    async def follower(bus: Bus, number: int) -> EventConsumer:
        store = InMemoryEventStore(ledger.database, "follower", f"follower-{number}")
        service = Service("follower", Repository(store, "follower", project), bus, SystemClock())
        await service.follow("ledger", {AccountOpened: react, MoneyDeposited: react})
        return service.consumers[0]

    older = await follower(await wires.process(), 1)
    for _ in range(3):
        await older.turn()
    assert seen == ["account.opened"]
    assert await older.store.position("ledger") == 1
    assert older.leadership.epoch is None
    assert ledger.database.schema("follower").rows("dead_letters") == []

    monkeypatch.setattr(MoneyDeposited, "schema_version", 4)
    monkeypatch.setattr(
        MoneyDeposited, "upcast_v3_v4", staticmethod(lambda payload: payload), raising=False
    )
    ledger.database.schema("ledger").log[-1] = replace(
        ledger.database.schema("ledger").log[-1], payload_json='{"cents":1,"currency":"EUR"}'
    )
    newer = await follower(await wires.process(), 2)
    await wait_for("the newer one reacts", newer_reacts(newer, seen))
    assert seen == ["account.opened", "money.deposited"]


def newer_reacts(newer: EventConsumer, seen: list[str]):  # type: ignore[no-untyped-def]
    async def reacted() -> bool:
        await newer.turn()
        return "money.deposited" in seen

    return reacted
