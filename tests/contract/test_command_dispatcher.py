"""The command shell: what it does with decisions that were made on something out of date."""

from __future__ import annotations

from dataclasses import replace

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import CONFLICT, UNPROCESSABLE, Accepted, Rejected
from libs.eventstore.in_memory_database import InMemoryDatabase
from libs.eventstore.unit_of_work import UnitOfWork
from tests.contract.ledger import Account, Deposit, context
from tests.contract.wires import Ledger

FULL = 10


async def fill(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
    """Bring money until there is enough."""
    account = await work.load(Account, command.account_id)
    if account.state.cents >= FULL:
        return Rejected(code=UNPROCESSABLE, reason=f"there are {account.state.cents} cents")
    if command.cents:
        account.deposit(command.cents)
    return Accepted(result={"cents": account.state.cents})


async def top_up(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
    """Bring money to an account that has some."""
    account = await work.load(Account, command.account_id)
    if account.state.cents < FULL:
        return Rejected(code=UNPROCESSABLE, reason=f"there are only {account.state.cents} cents")
    account.deposit(command.cents)
    return Accepted(result={"cents": account.state.cents})


async def answer(
    ledger: Ledger, message_id: str, cents: int, *, fingerprint: str = ""
) -> Accepted | Rejected:
    command = Deposit(account_id="a", cents=cents)
    name, payload = "ledger.money.deposit", command.model_dump_json().encode()
    sent = replace(context(message_id), fingerprint=fingerprint)
    return await ledger.shell.answer(IncomingCommand(name, payload, sent, ""))


async def open_account(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
    """Bring the first money to an account that should be new."""
    account = await work.load_new(Account, command.account_id)
    if account.exists:
        return Rejected(code=CONFLICT, reason=f"there are {account.state.cents} cents")
    if not command.cents:
        return Rejected(code=UNPROCESSABLE, reason="no money")
    account.deposit(command.cents)
    return Accepted(result={"cents": account.state.cents})


def two_processes(here: Handler, there: Handler) -> tuple[Ledger, Ledger]:
    database: InMemoryDatabase = Ledger().database
    return Ledger(here, database), Ledger(there, database)


async def test_what_is_cached_is_believed_as_long_as_it_is_current() -> None:
    ledger = Ledger(fill)
    assert await answer(ledger, "m1", 3) == Accepted(result={"cents": 3})
    loads: list[str] = []
    real = ledger.store.load

    async def load(aggregate_id: str, after: int = 0, *, state_version: str = "") -> object:
        loads.append(aggregate_id)
        return await real(aggregate_id, after, state_version=state_version)

    ledger.store.load = load  # type: ignore[method-assign, assignment]
    for number in range(2, 5):
        assert isinstance(await answer(ledger, f"m{number}", 1), Accepted)
    assert loads == []
    assert await ledger.cents("a") == [3, 1, 1, 1]


async def test_what_another_process_wrote_is_seen_before_anything_is_answered() -> None:
    here, there = two_processes(fill, fill)
    assert await answer(here, "m1", 3) == Accepted(result={"cents": 3})
    assert await answer(there, "m2", 4) == Accepted(result={"cents": 7})
    assert await answer(here, "m3", 0) == Accepted(result={"cents": 7}), "nothing to write"
    assert await answer(there, "m4", 1) == Accepted(result={"cents": 8})
    assert await answer(here, "m5", 2) == Accepted(result={"cents": 10})
    assert isinstance(await answer(there, "m6", 1), Rejected)
    assert await here.cents("a") == [3, 4, 1, 2]


async def test_a_refusal_is_decided_on_what_is_stored() -> None:
    here, there = two_processes(top_up, fill)
    assert isinstance(await answer(there, "m1", 3), Accepted)
    here.repository.keep(await here.repository.load(Account, "a", org="org-1"))
    assert isinstance(await answer(there, "m2", 7), Accepted)
    assert await answer(here, "m3", 5) == Accepted(result={"cents": 15})
    assert await here.cents("a") == [3, 7, 5]


async def test_a_name_that_comes_with_another_request_is_a_conflict() -> None:
    ledger = Ledger(fill)
    first = await answer(ledger, "m1", 3, fingerprint="three")
    again = await answer(ledger, "m1", 3, fingerprint="three")
    other = await answer(ledger, "m1", 4, fingerprint="four")

    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert first.result == again.result == {"cents": 3}
    assert isinstance(other, Rejected)
    assert other.code == CONFLICT
    assert "Idempotency-Key" in other.reason
    assert await ledger.cents("a") == [3]


async def test_a_name_with_another_request_is_a_conflict_even_where_that_would_be_refused() -> None:
    ledger = Ledger(fill)
    await answer(ledger, "m1", FULL, fingerprint="ten")
    other = await answer(ledger, "m1", 1, fingerprint="one")

    assert isinstance(other, Rejected)
    assert other.code == CONFLICT
    assert isinstance(await answer(ledger, "m1", 1), Accepted), "a sender of before has none"


async def test_what_should_be_new_is_read_only_where_it_is_not() -> None:
    here, there = two_processes(open_account, open_account)
    loads: list[str] = []
    real = there.store.load

    async def load(aggregate_id: str, after: int = 0, *, state_version: str = "") -> object:
        loads.append(aggregate_id)
        return await real(aggregate_id, after, state_version=state_version)

    there.store.load = load  # type: ignore[method-assign, assignment]
    opened = Accepted(result={"cents": 3})
    assert await answer(there, "m1", 3) == opened
    assert not loads
    there.repository.drop("a")
    # What was taken for new is there: decided again, with what it is. So are refusals.
    there_is = Rejected(code=CONFLICT, reason="there are 3 cents")
    assert await answer(there, "m2", 4) == there_is
    assert loads == ["a"]
    there.repository.drop("a")
    assert await answer(there, "m3", 0) == there_is
    assert await answer(there, "m1", 3) == opened
    assert await answer(here, "m4", 5) == there_is
