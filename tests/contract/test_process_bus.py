"""Services of one process: what they send each other is not on NATS, and all else is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextvars import ContextVar
from functools import partial

import pytest

from libs.bus.nats_bus import NatsBus
from libs.bus.ports import Bus, IncomingCommand
from libs.bus.process_bus import ProcessBus
from libs.bus.process_router import ProcessRouter
from libs.contracts.bus_messages import Accepted, Rejected, delta_subject
from libs.contracts.stream_definitions import COMMANDS_STREAM
from libs.eventstore.unit_of_work import UnitOfWork
from tests.contract.ledger import Deposit, context, deposit
from tests.contract.wires import HOLDERS, Ledger, NatsWires, nats_wires
from tests.servers import NatsServer
from tests.waiting import wait_for

FIVE = Deposit(account_id="a", cents=5)


@pytest.fixture
async def shared(nats_server: NatsServer, ledger_has_streams: None) -> AsyncIterator[NatsWires]:
    """Buses of the services of one process."""
    make_bus = partial(ProcessBus, router=ProcessRouter())
    async with nats_wires(nats_server.url, make_bus) as wires:
        yield wires


async def outside(wires: NatsWires) -> NatsBus:
    """The bus of another process, which is stopped with the others."""
    bus = NatsBus(wires.url, f"process-{next(HOLDERS)}")
    await bus.start()
    wires.buses.append(bus)
    return bus


async def commands(wires: NatsWires) -> list[str]:
    """The subjects of the commands that are on NATS from now on."""
    seen: list[str] = []

    async def see(message: object) -> None:
        seen.append(str(getattr(message, "subject", "")))

    await wires.observer.subscribe("*.command.>", cb=see)
    await wires.observer.flush()
    return seen


async def stored(wires: NatsWires) -> int:
    """The number of the last command that went through the stream."""
    info = await wires.observer.jetstream().stream_info(COMMANDS_STREAM)
    return info.state.last_seq


async def test_commands_between_services_of_a_process_are_not_on_nats(shared: NatsWires) -> None:
    ledger = Ledger()
    await shared.process(ledger.serve)
    client, stranger = await shared.process(), await outside(shared)
    seen = await commands(shared)
    for number in range(10):
        await client.request(FIVE, context(f"m{number}"))
    assert await stored(shared) == 0
    assert await stranger.request(FIVE, context("of-a-stranger")) == Accepted(result={"cents": 55})
    await wait_for("the stranger's command", lambda: seen)
    assert set(seen) == {"ledger.command.money.deposit.org-1.a"}
    assert await stored(shared) >= 1


async def test_what_is_served_elsewhere_goes_over_nats(shared: NatsWires) -> None:
    stranger = NatsBus(shared.url, f"process-{next(HOLDERS)}")
    await Ledger().serve(stranger)
    await stranger.start()
    shared.buses.append(stranger)
    client = await shared.process()
    assert await client.request(FIVE, context("m1")) == Accepted(result={"cents": 5})
    assert await stored(shared) >= 1


async def test_what_fails_in_memory_is_tried_again_over_nats(shared: NatsWires) -> None:
    """So another process may succeed, and the count and the pauses are those of every command."""
    again: list[bool] = []
    sent_at: list[str] = []

    async def second_time(incoming: IncomingCommand) -> Accepted | Rejected:
        again.append(incoming.again)
        sent_at.append(incoming.context.sent_at)
        if len(again) == 1:
            raise RuntimeError("a bug")
        return Accepted()

    await shared.process(lambda bus: bus.serve("ledger", second_time))
    client = await shared.process()
    assert await client.request(FIVE, context("m1")) == Accepted()
    assert (again[0], set(again[1:])) == (False, {True})
    assert await stored(shared) >= 1


async def test_a_handler_is_no_part_of_its_requester(shared: NatsWires) -> None:
    """It begins on a stack and with context variables of its own, and outlives the requester."""
    variable: ContextVar[str] = ContextVar("variable", default="of the service")
    gate, seen = asyncio.Event(), list[str]()

    async def slow(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        seen.append(variable.get())
        await gate.wait()
        return await deposit(command, work)

    ledger = Ledger(slow)
    await shared.process(ledger.serve)
    client = await shared.process()
    variable.set("of the requester")
    requesting = asyncio.create_task(client.request(FIVE, context("m1")))
    await wait_for("the handler to begin", lambda: seen)
    requesting.cancel()
    gate.set()
    await wait_for("the deposit", lambda: ledger.store.stored_reply("m1"))
    assert await ledger.cents("a") == [5]
    assert seen == ["of the service"]
    assert requesting.cancelled()


async def test_requester_and_handler_share_no_object(shared: NatsWires) -> None:
    balances = {"a": [1]}

    async def answer(incoming: IncomingCommand) -> Accepted:
        asyncio.get_running_loop().call_soon(balances["a"].append, 2)
        return Accepted(result=dict(balances))

    await shared.process(lambda bus: bus.serve("ledger", answer))
    client = await shared.process()
    first = await client.request(FIVE, context("m1"))
    assert first == Accepted(result={"a": [1]})
    first.result["a"].clear()
    assert balances == {"a": [1, 2]}


async def test_a_delta_is_heard_once_in_its_process_and_once_in_others(
    shared: NatsWires,
) -> None:
    inside, publisher = await shared.process(), await shared.process()
    stranger = await outside(shared)
    sibling = ProcessBus(shared.url, f"process-{next(HOLDERS)}", ProcessRouter())
    await sibling.start()
    shared.buses.append(sibling)
    subject = delta_subject("ledger", "run", "token", "org-1", "run-1")
    heard: dict[str, list[bytes]] = {"inside": [], "stranger": [], "sibling": []}
    listeners: dict[str, Bus] = {"inside": inside, "stranger": stranger, "sibling": sibling}

    for name, bus in listeners.items():
        pattern = delta_subject("ledger", "run", "*", "org-1", "run-1")
        await bus.subscribe_deltas(pattern, lambda _, sent, name=name: heard[name].append(sent))
    await wires_flushed(*(inside, stranger, sibling))
    expected = []
    for number in range(50):
        await publisher.publish_delta(subject, b"%d" % number)
        expected.append(b"%d" % number)
        assert heard["inside"] == expected, "in memory it is there at once"
    await publisher.publish_delta(subject, b"whole", replaces_kept=True)
    await stranger.publish_delta(subject, b"of a stranger")
    expected += [b"whole", b"of a stranger"]
    for name in heard:
        await wait_for(f"the last one ({name})", lambda name=name: len(heard[name]) >= 52)
    for name in heard:
        assert sorted(heard[name]) == sorted(expected)
        assert [sent for sent in heard[name] if sent != expected[-1]] == expected[:-1]


async def wires_flushed(*buses: NatsBus) -> None:
    """NATS knows the subscriptions of these."""
    for bus in buses:
        await bus.client.flush()
