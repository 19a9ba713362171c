"""Commands that cannot be handled: tried a few times, parked, replayed; others go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from libs.bus import command_retries, retry_policy
from libs.bus import event_consumer as consumers
from libs.bus.command_retries import DEATHS_MAX
from libs.bus.in_memory import InMemoryBus, InMemoryNetwork
from libs.bus.ports import Bus, BusUnavailable, IncomingCommand, outgoing
from libs.bus.retry_policy import ATTEMPTS_MAX
from libs.contracts.bus_messages import (
    NOT_FOUND,
    PARKED,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Rejected,
)
from libs.eventstore.failed_messages.ports import DeadLetter
from libs.eventstore.ports import StoreRefused, StoreUnavailable, VersionConflict
from libs.eventstore.unit_of_work import UnitOfWork
from tests.contract.ledger import (
    Deposit,
    DiscardLedgerLetter,
    ReplayLedgerLetter,
    context,
    deposit,
)
from tests.contract.poisoned_ledger import Poisoned
from tests.contract.wires import Wires, nats_wires
from tests.waiting import in_time, wait_for


@pytest.fixture(autouse=True)
def short_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_policy, "PAUSE_SECONDS", (0.05, 0.1, 0.15))
    monkeypatch.setattr(command_retries, "BUSY_SECONDS", 0.1)
    monkeypatch.setattr(consumers, "POLL_SECONDS", 0.02)


class Fault:
    """A handler that fails for some accounts until it is mended."""

    def __init__(self, *poisoned: str, bug: Callable[[], Exception] = RuntimeError) -> None:
        self.poisoned = {*poisoned}
        self.bug = bug
        self.attempts: list[str] = []

    async def __call__(self, command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        if command.account_id in self.poisoned:
            self.attempts.append(work.context.message_id)
            raise self.bug()
        return await deposit(command, work)


async def parked(client: Bus, command: Command, message_id: str = "m1") -> str:
    """The id of the letter that a command becomes."""
    reply = await client.request(command, context(message_id))
    assert isinstance(reply, Rejected)
    assert reply.code == PARKED
    return next(word for word in reply.reason.split() if word.startswith("letter-"))


async def letter_of(ledger: Poisoned, letter_id: str) -> DeadLetter:
    letter = await ledger.store.letters.find(letter_id)
    assert letter is not None
    return letter


async def test_a_command_that_always_fails_is_parked_and_its_sender_told(wires: Wires) -> None:
    fault = Fault("poison")
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    letter = await letter_of(ledger, await parked(client, Deposit(account_id="poison", cents=5)))
    assert fault.attempts == ["m1"] * ATTEMPTS_MAX
    assert (letter.service, letter.kind) == ("ledger", "command")
    assert letter.name == "ledger.money.deposit"
    assert letter.subject == "ledger.command.money.deposit.org-1.poison"
    assert (letter.payload, letter.payload_text) == ({"account_id": "poison", "cents": 5}, None)
    assert letter.context["actor"] == "user-1"
    assert (letter.org, letter.correlation_id) == ("org-1", "for-m1")
    assert (letter.attempts, letter.status) == (ATTEMPTS_MAX, "parked")
    assert letter.error_class == "RuntimeError"
    assert "in __call__" in letter.error_text
    assert letter.first_at < letter.last_at
    assert ledger.counted() == []
    assert await parked(client, Deposit(account_id="poison", cents=5)) == letter.id


async def test_a_question_that_always_fails_is_refused_and_leaves_nothing(
    wires: Wires, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deposit, "keeps_reply", False)
    fault = Fault("poison")
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="poison", cents=5), context("m1"))
    assert isinstance(reply, Rejected)
    assert (reply.code, "ledger.money.deposit failed" in reply.reason) == (PARKED, True)
    assert fault.attempts == ["m1"] * ATTEMPTS_MAX
    assert ledger.letters() == []
    assert ledger.counted() == []


async def test_others_go_on_while_a_command_fails(wires: Wires) -> None:
    ledger = Poisoned(Fault("poison"))
    await wires.process(ledger.serve)
    client = await wires.process()
    tries = count(1)

    async def slowest() -> float:
        these, took = next(tries), 0.0
        poisonous = Deposit(account_id="poison", cents=5)
        poison = asyncio.create_task(parked(client, poisonous, f"p{these}"))
        for number in range(50):
            command, began = Deposit(account_id=f"a{these}-{number}", cents=5), time.monotonic()
            reply = await client.request(command, context(f"m{these}-{number}"), seconds_max=20)
            assert reply == Accepted(result={"cents": 5})
            took = max(took, time.monotonic() - began)
        await poison
        assert len(ledger.letters()) == these
        return took

    await in_time("each of the others", slowest, 2.0)


async def test_a_command_that_fails_twice_and_then_works_leaves_nothing(wires: Wires) -> None:
    fault = Fault("a")

    async def mended(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        if len(fault.attempts) == 2:
            fault.poisoned.clear()
        return await fault(command, work)

    ledger = Poisoned(mended)
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert reply == Accepted(result={"cents": 5})
    assert ledger.letters() == []
    assert ledger.counted() == []


@pytest.mark.parametrize(
    "reason", [StoreUnavailable, BusUnavailable, VersionConflict], ids=lambda error: error.__name__
)
async def test_what_is_not_the_fault_of_a_command_does_not_park_it(
    wires: Wires, reason: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.bus.nats_command_consumer.REDELIVERY_SECONDS", (0.05,))
    fault = Fault("a", bug=lambda: reason("the world"))
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    asking = asyncio.create_task(client.request(Deposit(account_id="a", cents=5), context("m1")))
    await wait_for("many attempts", lambda: len(fault.attempts) > ATTEMPTS_MAX)
    fault.poisoned.clear()
    assert await asking == Accepted(result={"cents": 5})
    assert ledger.letters() == []


async def test_trouble_that_outlasts_its_sender_is_kept_and_the_command_may_come_again(
    wires: Wires,
) -> None:
    fault = Fault("a", bug=lambda: BusUnavailable("the world"))
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    command = Deposit(account_id="a", cents=5)
    with pytest.raises(BusUnavailable):
        await client.request(command, context("m1"), seconds_max=0.3)
    await wait_for("a dead letter", lambda: len(ledger.letters()) == 1)
    assert ledger.letters()[0]["message_id"] == "m1"
    assert "the world" in ledger.letters()[0]["error_text"]
    attempts = len(fault.attempts)
    fault.poisoned.clear()
    assert await client.request(command, context("m1")) == Accepted(result={"cents": 5})
    assert len(fault.attempts) == attempts, "nothing is tried any more"


async def test_what_the_store_refuses_is_refused_at_once(wires: Wires) -> None:
    fault = Fault("a", bug=lambda: StoreRefused("too long for an index", by_data=True))
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert isinstance(reply, Rejected)
    assert (reply.code, fault.attempts) == (UNPROCESSABLE, ["m1"])
    assert "too long for an index" in reply.reason
    assert (ledger.letters(), ledger.counted()) == ([], [])


async def test_what_the_store_cannot_do_is_parked_at_once(wires: Wires) -> None:
    fault = Fault("a", bug=lambda: StoreRefused("no such table", by_data=False))
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    letter = await letter_of(ledger, await parked(client, Deposit(account_id="a", cents=5)))
    assert (letter.attempts, fault.attempts) == (1, ["m1"])
    assert "no such table" in letter.error_text


async def test_what_nobody_can_read_is_parked_as_it_is(wires: Wires) -> None:
    ledger = Poisoned(deposit)
    await wires.process(ledger.serve)
    client = await wires.process()
    sent = outgoing(Deposit(account_id="a", cents=1), context("m1"))
    wrong = IncomingCommand(
        sent.name, b'{"account_id":"a","cents":"many"}', context("m2"), sent.subject
    )
    reply = await client.resend(wrong)
    assert isinstance(reply, Rejected)
    assert reply.code == PARKED
    [letter] = ledger.letters()
    assert letter["payload"] == {"account_id": "a", "cents": "many"}
    assert letter["error_class"].endswith("ValidationError")
    assert "cents" in letter["error_text"]


async def test_a_message_without_headers_or_json_is_parked_though_nobody_waits(
    nats_server: Any, ledger_has_streams: None
) -> None:
    async with nats_wires(nats_server.url) as wires:
        ledger = Poisoned(deposit)
        await wires.process(ledger.serve)
        await wires.observer.publish("ledger.command.money.deposit.org-1.a", b"{not\x00 json")
        await wait_for("it is parked", ledger.letters)
        [letter] = ledger.letters()
        assert (letter["name"], letter["payload"]) == ("ledger.money.deposit", None)
        assert letter["payload_text"] == "{not\\x00 json"
        info = wires.observer.jetstream()
        await wait_for("it left the queue", lambda: empty(info))


async def empty(jetstream: Any) -> bool:
    return bool((await jetstream.stream_info("COMMANDS")).state.messages == 0)


async def test_a_process_that_dies_of_a_command_counts_as_an_attempt() -> None:
    """What a killed process leaves behind is that its attempt was begun, and no more."""
    fault = Fault()
    ledger = Poisoned(fault)
    network = InMemoryNetwork()
    bus = InMemoryBus(network)
    await ledger.serve(bus)
    for _ in range(DEATHS_MAX - 1):
        begun = await ledger.store.letters.begin("m1", known=1, hold_seconds=0.0)
        assert begun.number <= DEATHS_MAX
    bystander = "m2"
    await ledger.store.letters.begin(bystander, known=1, hold_seconds=0.0)
    client = InMemoryBus(network)
    command = Deposit(account_id="b", cents=5)
    assert await client.request(command, context(bystander)) == Accepted(result={"cents": 5})
    poison = replace(outgoing(Deposit(account_id="a", cents=5), context("m1")), again=True)
    reply = await bus.attempt("ledger", poison)
    assert isinstance(reply, Rejected)
    assert reply.code == PARKED
    [letter] = ledger.letters()
    assert (letter["message_id"], letter["error_class"]) == ("m1", "ProcessDied")
    assert letter["attempts"] == DEATHS_MAX
    assert fault.attempts == []


async def test_in_trouble_first_deliveries_are_counted_too() -> None:
    """A client that sends anew what killed the process is answered, and kills no other one."""
    fault = Fault("a")
    ledger = Poisoned(fault)
    network = InMemoryNetwork()
    await ledger.serve(InMemoryBus(network))
    client = InMemoryBus(network)
    await parked(client, Deposit(account_id="a", cents=5))
    attempts = len(fault.attempts)
    await parked(client, Deposit(account_id="a", cents=5))
    assert len(fault.attempts) == attempts


async def test_after_the_death_of_a_process_first_deliveries_are_counted_too() -> None:
    """What killed it may have come by memory, of which nothing is left, and may come anew."""
    gate, begun = asyncio.Event(), list[str]()

    async def waiting(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        begun.append(work.context.message_id)
        await gate.wait()
        return await deposit(command, work)

    counted: dict[bool, list[str]] = {}
    for follows_death in (False, True):
        gate.clear()
        begun.clear()
        ledger = Poisoned(waiting)
        network = InMemoryNetwork()
        await ledger.serve(InMemoryBus(network), follows_death=follows_death)
        client = InMemoryBus(network)
        request = client.request(Deposit(account_id="a", cents=5), context("m1"))
        requesting = asyncio.create_task(request)
        await wait_for("the attempt", lambda: begun)
        counted[follows_death] = [row["message_id"] for row in ledger.counted()]
        gate.set()
        assert await requesting == Accepted(result={"cents": 5})
        assert ledger.counted() == []
    assert counted == {False: [], True: ["m1"]}


async def test_a_replayed_letter_takes_effect_once_however_often_it_is_replayed(
    wires: Wires,
) -> None:
    fault = Fault("a")
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    letter_id = await parked(client, Deposit(account_id="a", cents=5))
    replay = ReplayLedgerLetter(letter_id=letter_id)
    assert await client.request(replay, context("r0")) == Accepted(result={"status": "parked"})
    assert (await letter_of(ledger, letter_id)).status == "parked"
    fault.poisoned.clear()
    replies = await asyncio.gather(*(client.request(replay, context(f"r{n}")) for n in range(1, 6)))
    assert replies == [Accepted(result={"status": "replayed"})] * 5
    assert await ledger.cents("a") == [5]
    letter = await letter_of(ledger, letter_id)
    assert letter.status == "replayed"
    assert letter.outcome == Accepted(result={"cents": 5}).model_dump()
    original = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert original == Accepted(result={"cents": 5})
    assert await ledger.cents("a") == [5]


async def test_a_discarded_letter_is_gone_and_its_message_stays_refused(wires: Wires) -> None:
    fault = Fault("a")
    ledger = Poisoned(fault)
    await wires.process(ledger.serve)
    client = await wires.process()
    letter_id = await parked(client, Deposit(account_id="a", cents=5))
    discard = DiscardLedgerLetter(letter_id=letter_id)
    assert await client.request(discard, context("d1")) == Accepted()
    assert ledger.letters() == []
    for gone in (discard, ReplayLedgerLetter(letter_id=letter_id)):
        reply = await client.request(gone, context(f"d2-{gone.topic}"))
        assert isinstance(reply, Rejected)
        assert (reply.code, letter_id in reply.reason) == (NOT_FOUND, True)
    assert await parked(client, Deposit(account_id="a", cents=5)) == letter_id


async def test_a_letter_of_another_organisation_is_not_there(wires: Wires) -> None:
    ledger = Poisoned(Fault("a"))
    await wires.process(ledger.serve)
    client = await wires.process()
    letter_id = await parked(client, Deposit(account_id="a", cents=5))
    stranger = Context("r1", org="org-2")
    for command in (
        ReplayLedgerLetter(letter_id=letter_id),
        DiscardLedgerLetter(letter_id=letter_id),
    ):
        reply = await client.request(command, stranger)
        assert isinstance(reply, Rejected)
        assert reply.code == NOT_FOUND
        stranger = Context("r2", org="org-2")
    assert (await letter_of(ledger, letter_id)).status == "parked"
