"""Commands wait in line for their aggregate; no line costs another one anything."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from libs.bus import bounded_command_queue
from libs.bus.aggregate_locks import AggregateLocks
from libs.bus.clock_and_ids import SystemClock
from libs.bus.nats_bus import NatsBus
from libs.bus.ports import Bus, BusUnavailable
from libs.bus.service_host import Service
from libs.contracts.bus_messages import BUSY, Accepted, Rejected
from libs.eventstore.unit_of_work import UnitOfWork
from tests.contract.ledger import Deposit, context, deposit
from tests.contract.wires import Ledger, NatsWires, Wires
from tests.waiting import wait_for


class SlowLedger(Ledger):
    """A ledger that decides about some accounts only when it is let go on."""

    def __init__(self, *held: str) -> None:
        super().__init__()
        self.held = {*held}
        self.go_on = asyncio.Event()
        self.handled: list[str] = []
        self.deciding: Counter[str] = Counter()
        self.most_at_once = 0

    async def handle(self, command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        self.handled.append(work.context.message_id)
        self.deciding[command.account_id] += 1
        self.most_at_once = max(self.most_at_once, *self.deciding.values())
        try:
            if command.account_id in self.held:
                await self.go_on.wait()
            await asyncio.sleep(0)
            return await deposit(command, work)
        finally:
            self.deciding[command.account_id] -= 1

    async def serve(self, bus: Bus) -> None:
        self.service = Service("ledger", self.repository, bus, SystemClock())
        await self.service.handle({Deposit: self.handle})


async def ask(
    bus: Bus, account: str, message_id: str, *, org: str = "org-1", seconds_max: float = 10.0
) -> Accepted | Rejected:
    sender = replace(context(message_id), org=org)
    return await bus.request(Deposit(account_id=account, cents=1), sender, seconds_max=seconds_max)


async def test_one_decision_at_a_time_is_made_about_an_aggregate(wires: Wires) -> None:
    ledger = SlowLedger()
    await wires.process(ledger.serve)
    client = await wires.process()
    replies = await asyncio.gather(*(ask(client, "a", f"m{n}") for n in range(60)))
    totals = [reply.result["cents"] for reply in replies if isinstance(reply, Accepted)]
    assert sorted(totals) == list(range(1, 61))
    assert ledger.most_at_once == 1
    assert len(ledger.handled) == 60, "nobody had to decide twice"


async def test_an_aggregate_that_cannot_go_on_holds_up_nobody_else(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_command_queue, "AGGREGATE_COMMANDS_MAX", 20)
    ledger = SlowLedger("hot")
    await wires.process(ledger.serve)
    client = await wires.process()
    pressing = [asyncio.create_task(ask(client, "hot", f"h{n}")) for n in range(50)]
    refused = await refusals(pressing, 30)
    assert {refusal.code for refusal in refused} == {BUSY}
    assert "20 requests wait for hot" in refused[0].reason
    for n in range(30):
        assert await ask(client, f"other-{n}", f"o{n}") == Accepted(result={"cents": 1})
    ledger.go_on.set()
    accepted = [reply for reply in await asyncio.gather(*pressing) if isinstance(reply, Accepted)]
    assert len(accepted) == 20
    assert len(await ledger.cents("hot")) == 20
    assert await ask(client, "hot", "after") == Accepted(result={"cents": 21})


async def test_an_organisation_that_fills_its_room_leaves_the_others_theirs(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_command_queue, "ORGANISATION_COMMANDS_MAX", 5)
    ledger = SlowLedger(*(f"hot-{n}" for n in range(8)))
    await wires.process(ledger.serve)
    client = await wires.process()
    pressing = [asyncio.create_task(ask(client, f"hot-{n}", f"h{n}")) for n in range(8)]
    assert {refusal.code for refusal in await refusals(pressing, 3)} == {BUSY}
    assert await ask(client, "calm", "c1", org="org-2") == Accepted(result={"cents": 1})
    ledger.go_on.set()
    await asyncio.gather(*pressing)
    assert await ask(client, "calm-too", "c2") == Accepted(result={"cents": 1})


async def refusals(asked: list[asyncio.Task[Accepted | Rejected]], number: int) -> list[Rejected]:
    """Those of these requests that are refused, as soon as so many are."""
    await wait_for(f"{number} refusals", lambda: sum(task.done() for task in asked) >= number)
    done = [task.result() for task in asked if task.done()]
    assert len(done) == number
    return [reply for reply in done if isinstance(reply, Rejected)]


async def test_a_command_whose_sender_has_gone_is_not_handled(wires: Wires) -> None:
    ledger = SlowLedger("a")
    await wires.process(ledger.serve)
    client = await wires.process()
    first = asyncio.create_task(ask(client, "a", "first"))
    await wait_for("the first", lambda: ledger.handled == ["first"])
    with pytest.raises(BusUnavailable):
        await ask(client, "a", "abandoned", seconds_max=0.2)
    await asyncio.sleep(0.2)  # it was on its way for a while before it began to wait
    ledger.go_on.set()
    assert await first == Accepted(result={"cents": 1})
    assert await ask(client, "a", "last") == Accepted(result={"cents": 2})
    assert "abandoned" not in ledger.handled
    assert ledger.database.schema("ledger").rows("dead_letters") == []


async def test_what_is_sent_again_while_it_waits_is_handled_once_and_left_nowhere(
    wires: Wires,
) -> None:
    ledger = SlowLedger("a")
    await wires.process(ledger.serve)
    client = await wires.process()
    asked = [asyncio.create_task(ask(client, "a", f"m{n}")) for n in range(3)]
    if isinstance(wires, NatsWires) and wires.make_bus is NatsBus:
        jetstream = wires.observer.jetstream()

        async def only_copies_are_gone() -> bool:
            state = (await jetstream.stream_info("COMMANDS")).state
            return state.last_seq - state.first_seq >= 6 and state.messages == 3

        await wait_for("each was sent thrice, and is kept once", only_copies_are_gone)
    else:
        await wait_for("the first", lambda: ledger.handled == ["m0"])
    ledger.go_on.set()
    assert all(isinstance(reply, Accepted) for reply in await asyncio.gather(*asked))
    assert ledger.handled == ["m0", "m1", "m2"]
    assert await ledger.cents("a") == [1, 1, 1]


async def test_who_goes_first_waits_only_for_who_holds_the_key() -> None:
    locks = AggregateLocks()
    order: list[str] = []

    async def take(name: str, *, first: bool = False) -> None:
        async with locks.hold("key", first=first):
            order.append(name)
            await asyncio.sleep(0)

    async with locks.hold("key"):
        tasks = [asyncio.create_task(take(name)) for name in ("a", "b", "gone")]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(take("driver", first=True)))
        await asyncio.sleep(0)
        tasks[2].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["driver", "a", "b"]
    assert locks.queues == {}
