"""A toy service for the contract suites: accounts, with one event that has an older version."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from pydantic import BaseModel, Field

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.per_service_commands import DISCARD, REPLAY, DeadLetterCommand
from libs.eventstore.ports import NewEvent
from libs.eventstore.read_model_rows import RowWrites, Table
from libs.eventstore.unit_of_work import Repository, UnitOfWork

SERVICE = "ledger"
AT = datetime(2026, 5, 17, 12, 30, 15, 123456, UTC)
ACCOUNTS = Table("accounts")
TABLES = """
create table {schema}.accounts (id text primary key, owner text, cents int, fields jsonb);
"""


class AccountOpened(Event, service=SERVICE, topic="account.opened"):
    """An account exists."""

    owner: str


class MoneyDeposited(Event, service=SERVICE, topic="money.deposited"):
    """Money came in. Version 1 counted whole euros, version 2 had no currency."""

    schema_version: ClassVar[int] = 3
    cents: int
    currency: str

    @staticmethod
    def upcast_v1_v2(payload: JsonObject) -> JsonObject:
        return {"cents": int(str(payload["euros"])) * 100}

    @staticmethod
    def upcast_v2_v3(payload: JsonObject) -> JsonObject:
        return {**payload, "currency": "EUR"}


class Balance(BaseModel):
    owner: str = ""
    cents: int = 0
    currencies: list[str] = Field(default_factory=list)


class Account(Aggregate[Balance]):
    State = Balance

    def deposit(self, cents: int) -> None:
        if not self.exists:
            self.record(AccountOpened, at=AT, owner="Ada")
        self.record(MoneyDeposited, at=AT, cents=cents, currency="EUR")

    def when(self, event: Event) -> None:
        match event:
            case AccountOpened():
                self.state.owner = event.owner
            case MoneyDeposited():
                self.state.cents += event.cents
                self.state.currencies.append(event.currency)


def project(event: Event, org: str, rows: RowWrites) -> None:
    match event:
        case AccountOpened():
            row: JsonObject = {"id": event.originator_id, "owner": event.owner, "cents": 0}
            rows.upsert(ACCOUNTS, {**row, "fields": {"org": org}})
        case MoneyDeposited():
            rows.patch(ACCOUNTS, {"id": event.originator_id, "fields": {"last": event.cents}})


class Deposit(Command, service=SERVICE, topic="money.deposit"):
    """Bring money; refused without any."""

    account_id: str
    cents: int

    @property
    def target(self) -> str:
        return self.account_id


async def deposit(command: Deposit, work: UnitOfWork) -> Accepted | Rejected:
    account = await work.load(Account, command.account_id)
    if command.cents <= 0:
        return Rejected(code=UNPROCESSABLE, reason=f"{command.cents} cents are no deposit")
    account.deposit(command.cents)
    return Accepted(result={"cents": account.state.cents})


def context(message_id: str) -> Context:
    return Context(message_id, org="org-1", actor="user-1", correlation_id=f"for-{message_id}")


def opened(account_id: str, version: int = 1) -> NewEvent:
    """An event without an aggregate that decided it."""
    return NewEvent(
        account_id,
        version,
        "account.opened",
        1,
        "org-1",
        account_id,
        '{"owner":"Ada"}',
        {"actor": "user-1", "command_id": "c-1"},
        AT,
    )


def deposited(account_id: str, version: int, payload_json: str, schema_version: int) -> NewEvent:
    event = ("money.deposited", schema_version, "org-1", account_id, payload_json)
    return NewEvent(account_id, version, *event, {}, AT)


class ReplayLedgerLetter(DeadLetterCommand, service=SERVICE, topic=REPLAY):
    """Let a message that the ledger gave up take effect after all."""


class DiscardLedgerLetter(DeadLetterCommand, service=SERVICE, topic=DISCARD):
    """Forget a message that the ledger gave up."""


class ReplayFollowerLetter(DeadLetterCommand, service="follower", topic=REPLAY):
    """Let an event that the follower gave up have its effect after all."""


class DiscardFollowerLetter(DeadLetterCommand, service="follower", topic=DISCARD):
    """Forget an event that the follower gave up."""


async def bring(repository: Repository, cents: int) -> Account:
    """Deposit into account `a` as one decision."""
    work = repository.work(context("m"))
    account = await work.load(Account, "a")
    account.deposit(cents)
    await work.commit()
    return account
