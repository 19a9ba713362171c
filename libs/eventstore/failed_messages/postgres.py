"""Attempts and dead letters on Postgres: one statement for each question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from libs.contracts.bus_messages import PARKED
from libs.eventstore.failed_messages.ports import Attempt, DeadLetter

if TYPE_CHECKING:
    from libs.eventstore.connection_pool import Database

BEGIN = """
with answered as (
    select i.reply from {schema}.inbox i where i.message_id = %(id)s
), begun as (
    insert into {schema}.attempts as a (message_id, attempts, free_at)
    select %(id)s, %(known)s::int + 1, now() + make_interval(secs => %(hold)s)
    where not exists (select from answered)
    on conflict (message_id) do update
    set attempts = greatest(a.attempts, %(known)s) + 1, last_at = now(), free_at = excluded.free_at
    where a.free_at <= now() and (%(unquarantined)s::int is null or a.attempts < %(unquarantined)s)
    returning a.attempts, a.first_at
)
select (select reply from answered), b.attempts, b.first_at,
       greatest(extract(epoch from t.free_at - now()), 0)::float8, t.attempts
from (select) one left join begun b on true
left join {schema}.attempts t on t.message_id = %(id)s"""

FAILED = """
insert into {schema}.attempts as a (message_id, attempts, free_at)
values (%(id)s, %(number)s, now() + make_interval(secs => %(rest)s))
on conflict (message_id) do update
set attempts = greatest(a.attempts, excluded.attempts), last_at = now(), free_at = excluded.free_at
returning a.attempts, a.first_at"""

HOLD = """
update {schema}.attempts set free_at = now() + make_interval(secs => %s) where message_id = %s"""

UNCOUNT = """
update {schema}.attempts set attempts = attempts - 1, free_at = now() where message_id = %s"""

FORGET = "delete from {schema}.attempts where message_id = %s"

FORGET_OLDER = "delete from {schema}.attempts where last_at < now() - make_interval(secs => %s)"

TROUBLED = """
select exists (select from {schema}.attempts
               where attempts >= %s and last_at > now() - make_interval(secs => %s))"""

FIND = """
select id, org, created_at, service, kind, name, subject, message_id, payload, payload_text,
       context, attempts, first_at, last_at, error_class, error_text, correlation_id, status,
       outcome
from {schema}.dead_letters where id = %s"""

# Only the refusal is taken back: a reply to what took effect stays, and keeps it from happening
# twice.
REOPEN = """
with letter as (
    update {schema}.dead_letters set status = 'replaying'
    where id = %(id)s and status <> 'replayed' returning message_id
), untried as (
    delete from {schema}.attempts a using letter where a.message_id = letter.message_id
)
delete from {schema}.inbox i using letter
where i.message_id = letter.message_id and i.reply::jsonb->>'code' = %(parked)s"""


class PostgresDeadLetterStore:
    """Keeps the contract of `ports.DeadLetterStore` in one schema of a Postgres database."""

    def __init__(self, database: Database, schema: str) -> None:
        self.database = database
        self.schema = schema

    async def run(self, text: str, parameters: Any) -> tuple[Any, ...] | None:
        """The first row of a statement in this service's schema, if it gives any."""
        rows = await self.database.fetch(text.format(schema=self.schema), parameters)
        return rows[0] if rows else None

    async def begin(
        self,
        message_id: str,
        *,
        known: int,
        hold_seconds: float,
        unquarantined_max: int | None = None,
    ) -> Attempt:
        """Begin the next attempt; see `ports.DeadLetterStore.begin`."""
        row = await self.run(
            BEGIN,
            {
                "id": message_id,
                "known": known,
                "hold": hold_seconds,
                "unquarantined": unquarantined_max,
            },
        )
        assert row is not None
        reply, number, first_at, wait, before = row
        if reply is not None:
            return Attempt(reply_json=reply)
        if number is not None:
            return Attempt(number, first_at)
        needs_quarantine = (
            not wait and unquarantined_max is not None and (before or 0) >= unquarantined_max
        )
        return Attempt(wait_seconds=wait or 0.0, needs_quarantine=needs_quarantine)

    async def hold(self, message_id: str, seconds: float) -> None:
        """Extend the hold: the process that makes this attempt is alive."""
        await self.run(HOLD, [seconds, message_id])

    async def record_failure(self, message_id: str, number: int, rest_seconds: float) -> Attempt:
        """Record that this attempt has failed; returns what is counted now."""
        row = await self.run(FAILED, {"id": message_id, "number": number, "rest": rest_seconds})
        assert row is not None
        return Attempt(*row)

    async def uncount(self, message_id: str) -> None:
        """The attempt that was begun does not count."""
        await self.run(UNCOUNT, [message_id])

    async def forget(self, message_id: str) -> None:
        await self.run(FORGET, [message_id])

    async def has_trouble(self, attempts: int, seconds: float) -> bool:
        row = await self.run(TROUBLED, [attempts, seconds])
        return row is not None and bool(row[0])

    async def forget_older(self, seconds: float) -> None:
        """Delete the attempts of messages whose last one is more than `seconds` ago."""
        await self.run(FORGET_OLDER, [seconds])

    async def find(self, letter_id: str) -> DeadLetter | None:
        row = await self.run(FIND, [letter_id])
        return DeadLetter(*row) if row else None

    async def reopen(self, letter_id: str) -> None:
        """Let the message of a letter take effect after all."""
        await self.run(REOPEN, {"id": letter_id, "parked": PARKED})
