"""What is one organisation's, is nothing to another: by store, by cache, and by trust."""

from __future__ import annotations

from dataclasses import replace

import pytest

from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, Accepted, Rejected
from libs.eventstore.unit_of_work import Repository, TakenElsewhere, UnitOfWork
from tests.contract.ledger import Account, Deposit, bring, context, project
from tests.contract.wires import Ledger
from tests.contract.worlds import World

STRANGER = replace(context("m2"), org="org-2")


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("trusting", [False, True])
async def test_another_organisation_finds_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, cached: bool, trusting: bool, snapshots: bool
) -> None:
    monkeypatch.setattr(Account, "snapshot_every_events", 1 if snapshots else 1_000)
    repository = Repository(world.store(), "ledger", project)
    await bring(repository, 5)
    if not cached:
        repository = Repository(world.store(), "ledger", project)
    found = await repository.work(STRANGER, trusting=trusting).load(Account, "a")
    assert (found.exists, found.version, found.state) == (False, 0, Account.State())
    assert repository.find_cached(Account, "a", org="org-2") is None
    assert repository.claim(Account, "a", org="org-2") is None
    own = await repository.load(Account, "a", org="org-1")
    assert (own.org, own.version, own.state.cents) == ("org-1", 2, 5)


@pytest.mark.parametrize("trusting", [False, True])
async def test_nothing_happens_to_an_aggregate_in_the_name_of_another_organisation(
    world: World, trusting: bool
) -> None:
    store = world.store()
    repository = Repository(store, "ledger", project)
    await bring(repository, 5)
    work = repository.work(STRANGER, trusting=trusting)
    (await work.load(Account, "a")).deposit(7)
    with pytest.raises(TakenElsewhere):
        await work.commit()
    work = repository.work(STRANGER)
    work.adopt(await repository.load(Account, "a", org="org-1"))
    work.loaded["a"].deposit(7)  # type: ignore[attr-defined]
    with pytest.raises(TakenElsewhere):
        await work.commit()
    assert {event.org for event in (await store.load("a")).events} == {"org-1"}
    assert len((await store.load("a")).events) == 2


async def look(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
    account = await work.load(Account, command.account_id)
    if not account.exists:
        return Rejected(code=NOT_FOUND, reason=f"Account {account.id} not found")
    return Accepted(result={"cents": account.state.cents})


async def open_new(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
    (await work.load_new(Account, command.account_id)).deposit(command.cents)
    return Accepted()


def asked(account_id: str, org: str, message_id: str) -> IncomingCommand:
    payload = Deposit(account_id=account_id, cents=1).model_dump_json().encode()
    sent = replace(context(message_id), org=org)
    return IncomingCommand("ledger.money.deposit", payload, sent)


async def test_a_command_of_another_organisation_is_answered_as_for_an_unknown_id() -> None:
    ledger = Ledger(look)
    await bring(ledger.repository, 5)
    for number in range(2):  # the second time it is cached
        mine = await ledger.shell.answer(asked("a", "org-1", f"m{number}"))
        assert mine == Accepted(result={"cents": 5})
    theirs = await ledger.shell.answer(asked("a", "org-2", "n1"))
    nobody = await ledger.shell.answer(asked("b", "org-2", "n2"))
    assert theirs == Rejected(code=NOT_FOUND, reason="Account a not found")
    assert nobody == Rejected(code=NOT_FOUND, reason="Account b not found")


async def test_an_id_that_another_organisation_has_cannot_be_taken() -> None:
    ledger = Ledger(open_new)
    await bring(ledger.repository, 5)
    for number in range(2):
        reply = await ledger.shell.answer(asked("a", "org-2", f"m{number}"))
        assert isinstance(reply, Rejected)
        assert reply.code == CONFLICT
    assert {event.org for event in (await ledger.store.load("a")).events} == {"org-1"}
