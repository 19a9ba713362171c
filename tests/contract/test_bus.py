"""What every bus keeps, in memory as on NATS: commands and their answers, deltas."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

import pytest

from libs.bus.nats_command_client import RESEND_SECONDS
from libs.bus.ports import Bus, BusUnavailable, IncomingCommand, outgoing
from libs.contracts.bus_messages import (
    TOO_LARGE,
    UNPROCESSABLE,
    Accepted,
    Context,
    Rejected,
    delta_subject,
    marked_deltas,
)
from libs.eventstore.unit_of_work import UnitOfWork
from tests.contract.ledger import Account, Deposit, context, deposit
from tests.contract.wires import Ledger, Wires
from tests.waiting import in_time, wait_for


def accepted(cents: int) -> Accepted:
    return Accepted(result={"cents": cents})


async def all_that_arrives(wires: Wires) -> list[IncomingCommand]:
    """What a servant of the ledger is sent, which accepts everything."""
    seen: list[IncomingCommand] = []

    async def answer(incoming: IncomingCommand) -> Accepted:
        seen.append(incoming)
        return Accepted()

    await wires.process(lambda bus: bus.serve("ledger", answer))
    return seen


async def test_a_command_is_answered_when_it_is_durable(wires: Wires) -> None:
    ledger = Ledger()
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert reply == accepted(5)
    assert await ledger.cents("a") == [5]
    assert await ledger.store.stored_reply("m1") == reply.model_dump_json()


async def test_a_refusal_reaches_the_requester_and_changes_nothing(wires: Wires) -> None:
    ledger = Ledger()
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=-1), context("m1"))
    assert reply == Rejected(code=UNPROCESSABLE, reason="-1 cents are no deposit")
    assert await ledger.cents("a") == []
    assert await ledger.store.stored_reply("m1") is None


async def test_a_command_that_the_bus_cannot_carry_is_refused_at_once(wires: Wires) -> None:
    """To NATS it is no transient trouble: whoever sends it is disconnected."""
    ledger = Ledger()
    await wires.process(ledger.serve)
    client = await wires.process()
    small = outgoing(Deposit(account_id="a", cents=5), context("m1"))
    large = replace(small, payload=small.payload[:-1] + b',"note":"' + b"x" * (8 << 20) + b'"}')
    refused = await client.resend(large)
    assert isinstance(refused, Rejected)
    assert refused.code == TOO_LARGE
    assert f"{len(large.payload)} bytes" in refused.reason
    assert await client.resend(small) == accepted(5)
    assert await ledger.cents("a") == [5]


async def test_an_answer_that_the_bus_cannot_carry_is_not_waited_for(wires: Wires) -> None:
    taken: list[str] = []

    async def answer(incoming: IncomingCommand) -> Accepted:
        taken.append(incoming.context.message_id)
        return Accepted(result={"note": "x" * (8 << 20)})

    await wires.process(lambda bus: bus.serve("ledger", answer))
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert isinstance(reply, Rejected)
    assert (reply.code, "The command was accepted" in reply.reason) == (TOO_LARGE, True)
    assert taken == ["m1"]


async def test_a_command_arrives_with_its_context(wires: Wires) -> None:
    seen = await all_that_arrives(wires)
    client = await wires.process()
    sent = Context("m1", "org-2", "user-2", "correlation", "cause")
    command = Deposit(account_id="ä", cents=1)
    assert await client.request(command, sent) == Accepted()
    [incoming] = seen
    arrived = replace(sent, sent_at=incoming.context.sent_at)
    assert (incoming.name, incoming.context) == ("ledger.money.deposit", arrived)
    assert Deposit.model_validate_json(incoming.payload) == command


@pytest.mark.parametrize("end_of_line", ["\n", "\r", "\r\n", "\r\n\r\n"])
async def test_a_line_break_in_the_context_forges_nothing(wires: Wires, end_of_line: str) -> None:
    seen = await all_that_arrives(wires)
    client = await wires.process()
    sent = Context("m1", "org-2", f"user-2{end_of_line}heeler-org: org-3", "correlation", "cause")
    assert await client.request(Deposit(account_id="a", cents=1), sent) == Accepted()
    [incoming] = seen
    assert incoming.context.org == "org-2"
    assert incoming.context.actor.split() == ["user-2", "heeler-org:", "org-3"]
    assert Deposit.model_validate_json(incoming.payload).cents == 1


async def test_a_message_that_comes_twice_gets_the_answer_of_the_first_time(wires: Wires) -> None:
    ledger = Ledger()
    await wires.process(ledger.serve)
    client = await wires.process()
    command = Deposit(account_id="a", cents=5)
    assert await client.request(command, context("m1")) == accepted(5)
    assert await client.request(command, context("m2")) == accepted(10)
    replies = [client.request(command, context("m1")) for _ in range(20)]
    assert await asyncio.gather(*replies) == [accepted(5)] * 20
    assert await ledger.cents("a") == [5, 5]


async def test_a_message_that_took_effect_is_not_refused_later(wires: Wires) -> None:
    """A withdrawal that emptied the account, asked again, was still a success."""

    async def once(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        account = await work.load(Account, command.account_id)
        if account.exists:
            return Rejected(code=UNPROCESSABLE, reason="exists already")
        return await deposit(command, work)

    ledger = Ledger(once)
    await wires.process(ledger.serve)
    client = await wires.process()
    command = Deposit(account_id="a", cents=5)
    for _ in range(2):
        assert await client.request(command, context("m1")) == accepted(5)
    refused = await client.request(command, context("m2"))
    assert refused == Rejected(code=UNPROCESSABLE, reason="exists already")


async def test_a_command_whose_handler_fails_is_delivered_again(wires: Wires) -> None:
    attempts: list[str] = []

    async def third_time(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        attempts.append(work.context.message_id)
        reply = await deposit(command, work)
        if len(attempts) < 3:
            raise RuntimeError("a bug")
        return reply

    ledger = Ledger(third_time)
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert reply == accepted(5)
    assert await ledger.cents("a") == [5]
    assert set(attempts) == {"m1"}


async def test_a_command_says_when_it_was_sent_first_however_often_it_came(wires: Wires) -> None:
    """By one clock for all senders, so that what two of them sent can be put in order."""
    sent: dict[str, list[datetime]] = defaultdict(list)

    async def second_time(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        times = sent[work.context.message_id]
        times.append(datetime.fromisoformat(work.context.sent_at))
        if len(times) == 1:
            await asyncio.sleep(RESEND_SECONDS[0] * 1.5)
            raise RuntimeError("a bug")
        return await deposit(command, work)

    await wires.process(Ledger(second_time).serve)
    first, second = await wires.process(), await wires.process()
    for name, client in (("m1", first), ("m2", second)):
        await client.request(Deposit(account_id=name, cents=5), context(name))
    assert sent["m1"][0] < sent["m2"][0]
    for times in sent.values():
        spread = max(times) - min(times)
        assert spread < timedelta(seconds=RESEND_SECONDS[0] / 2)


async def test_a_failing_command_does_not_hold_up_the_others(wires: Wires) -> None:
    async def poisoned(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        if command.account_id == "poison":
            raise RuntimeError("a bug")
        return await deposit(command, work)

    await wires.process(Ledger(poisoned).serve)
    client = await wires.process()
    tries = count()

    async def slowest() -> float:
        these, took = next(tries), 0.0
        poisonous = Deposit(account_id="poison", cents=1)
        poison = asyncio.create_task(client.request(poisonous, context(f"p{these}"), seconds_max=2))
        for number in range(20):
            command, began = Deposit(account_id=f"a{these}-{number}", cents=5), time.monotonic()
            reply = await client.request(command, context(f"m{these}-{number}"), seconds_max=20)
            assert reply == accepted(5)
            took = max(took, time.monotonic() - began)
        with pytest.raises(BusUnavailable):
            await poison
        return took

    await in_time("each of the others", slowest, 1.0)


async def test_a_version_conflict_is_decided_again(wires: Wires) -> None:
    other = Ledger()
    seen: list[int] = []

    async def disturbed(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        account = await work.load(Account, command.account_id)
        seen.append(account.state.cents)
        if len(seen) == 1:
            aside = other.repository.work(context("aside"))
            (await aside.load(Account, command.account_id)).deposit(100)
            await aside.commit()
        return await deposit(command, work)

    ledger = Ledger(disturbed, other.database)
    await wires.process(ledger.serve)
    client = await wires.process()
    reply = await client.request(Deposit(account_id="a", cents=5), context("m1"))
    assert reply == accepted(105)
    assert seen == [0, 100]
    assert await ledger.cents("a") == [100, 5]


async def test_nobody_serving_is_found_out_in_time(wires: Wires) -> None:
    client = await wires.process()

    async def found_out() -> float:
        began = time.monotonic()
        with pytest.raises(BusUnavailable):
            await client.request(Deposit(account_id="a", cents=5), context("m1"), seconds_max=0.5)
        took = time.monotonic() - began
        assert took > 0.4
        return took

    await in_time("nobody answers", found_out, 1.5)


async def test_a_command_waits_for_somebody_to_serve_it(wires: Wires) -> None:
    client = await wires.process()
    waiting = asyncio.create_task(client.request(Deposit(account_id="a", cents=5), context("m1")))
    ledger = Ledger()
    await wires.process(ledger.serve)
    assert await waiting == accepted(5)
    assert await ledger.cents("a") == [5]


async def test_several_servants_share_the_commands(wires: Wires) -> None:
    first = Ledger()
    second = Ledger(database=first.database)
    served: dict[str, set[str]] = {"first": set(), "second": set()}

    def counting(name: str, ledger: Ledger) -> object:
        async def answer(incoming: IncomingCommand) -> Accepted | Rejected:
            served[name].add(incoming.context.message_id)
            return await ledger.shell.answer(incoming)

        return lambda bus: bus.serve("ledger", answer)

    for name, ledger in (("first", first), ("second", second)):
        await wires.process(counting(name, ledger))  # type: ignore[arg-type]
    client = await wires.process()
    requests = [
        client.request(Deposit(account_id="a", cents=1), context(f"m{number}"))
        for number in range(60)
    ]
    replies = await asyncio.gather(*requests)
    assert sorted(reply.result["cents"] for reply in replies if isinstance(reply, Accepted)) == (
        list(range(1, 61))
    )
    assert await first.cents("a") == [1] * 60
    assert served["first"]
    assert served["second"]
    assert served["first"] | served["second"] == {f"m{number}" for number in range(60)}


async def test_who_stops_serving_finishes_what_it_took_and_takes_no_more(wires: Wires) -> None:
    gate = asyncio.Event()
    begun: set[str] = set()

    async def slow(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        begun.add(work.context.message_id)
        await gate.wait()
        return await deposit(command, work)

    ledger = Ledger(slow)
    servant = await wires.process(ledger.serve)
    client = await wires.process()
    taken = [
        asyncio.create_task(
            client.request(Deposit(account_id=f"a{number}", cents=5), context(f"m{number}"))
        )
        for number in range(5)
    ]
    await wait_for("all begun", lambda: len(begun) == 5)
    stopping = asyncio.create_task(servant.stop_serving())
    late = Deposit(account_id="late", cents=5)
    for number in count():
        assert number < 5, "it goes on taking commands"
        late_id = f"late{number}"
        with pytest.raises(BusUnavailable):
            await client.request(late, context(late_id), seconds_max=0.4)
        if late_id not in begun:
            break
    assert not stopping.done()
    gate.set()
    await stopping
    assert await asyncio.gather(*taken) == [accepted(5)] * 5
    before = await ledger.cents("late")
    heir = Ledger(database=ledger.database)
    await wires.process(heir.serve)
    assert await client.request(late, context(late_id)) == accepted(sum(before) + 5)


async def test_deltas_that_a_request_causes_are_heard_in_order(wires: Wires) -> None:
    subject = delta_subject("ledger", "run", "progress", "org-1", "run-1")
    other = delta_subject("ledger", "run", "progress", "org-1", "run-2")
    buses: list[Bus] = []

    async def telling(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        for number in range(300):
            await buses[0].publish_delta(subject, b"%d" % number)
            await buses[0].publish_delta(other, b"not for you")
        return Accepted()

    buses.append(await wires.process(Ledger(telling).serve))
    client = await wires.process()
    heard: list[bytes] = []
    also_heard: list[bytes] = []
    subscription = await client.subscribe_deltas(subject, lambda _, sent: heard.append(sent))
    await client.subscribe_deltas(subject, lambda _, sent: also_heard.append(sent))
    await client.request(Deposit(account_id="a", cents=1), context("m1"))
    await wait_for("all deltas", lambda: len(heard) == len(also_heard) == 300)
    assert heard == also_heard == [b"%d" % number for number in range(300)]
    await subscription.end()
    await client.request(Deposit(account_id="a", cents=1), context("m2"))
    await wait_for("the deltas of the one that stayed", lambda: len(also_heard) == 600)
    assert len(heard) == 300


async def test_one_subscription_hears_of_all_ids_with_one_mark(wires: Wires) -> None:
    mark = "0123456789ab"
    marked = [
        delta_subject("ledger", "run", "progress", "org-1", f"run-1-{mark}"),
        delta_subject("ledger", "run", "token", "org-2", f"run-2-{mark}"),
    ]
    buses: list[Bus] = []

    async def telling(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
        unmarked = delta_subject("ledger", "run", "token", "org-1", "run-1-ba9876543210")
        for subject in marked:
            await buses[0].publish_delta(unmarked, b"not for you")
            await buses[0].publish_delta(subject, b"for you")
        return Accepted()

    buses.append(await wires.process(Ledger(telling).serve))
    client = await wires.process()
    heard: list[tuple[str, bytes]] = []
    pattern = marked_deltas("ledger", "run", mark)
    await client.subscribe_deltas(pattern, lambda subject, sent: heard.append((subject, sent)))
    await client.request(Deposit(account_id="a", cents=1), context("m1"))
    await wait_for("what is marked", lambda: len(heard) >= 2)
    assert heard == [(subject, b"for you") for subject in marked]


async def test_a_delta_that_nobody_hears_is_gone(wires: Wires) -> None:
    client = await wires.process()
    subject = delta_subject("ledger", "run", "progress", "org-1", "run-1")
    await client.publish_delta(subject, b"before anybody heard")
    heard: list[bytes] = []
    await client.subscribe_deltas(subject, lambda _, sent: heard.append(sent))
    await client.publish_delta(subject, b"now")
    await wait_for("the delta that somebody hears", lambda: b"now" in heard)
    assert heard == [b"now"]
    assert await client.kept_deltas(subject) == []


async def test_tokens_are_kept_for_who_comes_later_and_other_deltas_are_not(wires: Wires) -> None:
    client = await wires.process()
    tokens = delta_subject("ledger", "run", "token", "org-1", "run-1")
    told = delta_subject("ledger", "run", "progress", "org-1", "run-1")
    heard: list[bytes] = []
    both = delta_subject("ledger", "run", "*", "org-1", "run-1")
    await client.subscribe_deltas(both, lambda _, sent: heard.append(sent))
    for number in range(300):
        await client.publish_delta(told if number % 100 == 0 else tokens, b"%d" % number)
    await client.publish_delta(delta_subject("ledger", "run", "token", "org-1", "run-2"), b"x")
    await wait_for("all deltas, in order", lambda: heard == [b"%d" % n for n in range(300)])
    kept: list[bytes] = []

    async def kept_all() -> bool:
        kept[:] = await client.kept_deltas(tokens)
        return len(kept) == 297

    await wait_for("the stream to have them", kept_all)
    assert kept == [text for text in heard if int(text) % 100]
    assert await client.kept_deltas(told) == []
    assert await client.kept_deltas(tokens.replace("run-1", "run-3")) == []
    others = delta_subject("ledger", "run", "token", "*", "*")
    assert sorted(await client.kept_subjects(others)) == [tokens, tokens.replace("run-1", "run-2")]
    assert await client.kept_subjects(others.replace("ledger", "agent")) == []
    await client.publish_delta(tokens, b"recorded", replaces_kept=True)

    async def kept_none() -> bool:
        return await client.kept_deltas(tokens) == []

    await wait_for("the stream to forget what is recorded", kept_none)
    assert heard[-1] == b"recorded"
    assert await client.kept_deltas(tokens.replace("run-1", "run-2")) == [b"x"]
