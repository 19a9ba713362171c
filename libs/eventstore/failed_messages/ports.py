"""Messages that were tried in vain: how often, and what becomes of them in the end.

A message that is answered at its first attempt costs nothing here. What has to be known of the
others is durable, because the process that tries may die of the message. Two adapters keep this
contract, `postgres.PostgresDeadLetterStore` and `in_memory.InMemoryDeadLetterStore`; the suite
in `tests/contract/test_dead_letters.py` runs over both.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, Protocol

from libs.contracts.bus_messages import Json, JsonObject
from libs.eventstore.read_model_rows import RowWrites, Table

ATTEMPTS = Table("attempts", ("message_id",))
# The payload is whatever somebody has sent.
DEAD_LETTERS = Table("dead_letters", json_strings=("payload",))

PARKED_STATUS = "parked"
REPLAYING = "replaying"
REPLAYED = "replayed"

Kind = Literal["command", "event", "run", "work"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Which attempt this is, counted from 1; 0 if it may not begin.

    Then `reply_json` says what the message was answered already, `wait_seconds` when to ask again,
    and `needs_quarantine` that it may begin only where no other suspect is handled meanwhile.
    """

    number: int = 0
    first_at: datetime | None = None
    reply_json: str | None = None
    wait_seconds: float = 0.0
    needs_quarantine: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that failed for good, with all that is known of it."""

    id: str
    org: str
    created_at: datetime
    service: str
    kind: Kind
    name: str
    subject: str
    message_id: str
    payload: Json
    payload_text: str | None
    context: JsonObject
    attempts: int
    first_at: datetime
    last_at: datetime
    error_class: str
    error_text: str
    correlation_id: str
    status: str = PARKED_STATUS
    outcome: JsonObject | None = None


def park(letter: DeadLetter, rows: RowWrites) -> None:
    """Put a letter among the rows of a commit; its attempts need no more counting."""
    row: JsonObject = asdict(letter)
    for column in ("created_at", "first_at", "last_at"):
        row[column] = getattr(letter, column).isoformat()
    rows.upsert(DEAD_LETTERS, row)
    rows.delete(ATTEMPTS, "message_id", letter.message_id)


class DeadLetterStore(Protocol):
    """The attempts and the dead letters of one service."""

    async def begin(
        self,
        message_id: str,
        *,
        known: int,
        hold_seconds: float,
        unquarantined_max: int | None = None,
    ) -> Attempt:
        """Begin the next attempt, unless the message is answered, worked on or at rest.

        `known` attempts are known to have been made that nobody counted. Nobody else begins
        another for `hold_seconds`. A message that was tried `unquarantined_max` times may not begin
        outside of quarantine.
        """

    async def hold(self, message_id: str, seconds: float) -> None:
        """Extend the hold: the attempting process is alive, so no other begins for so long."""

    async def record_failure(self, message_id: str, number: int, rest_seconds: float) -> Attempt:
        """This attempt has failed; the next one begins after a rest. Also for a first attempt,
        which nobody began here."""

    async def uncount(self, message_id: str) -> None:
        """The attempt that was begun does not count: the message was not to blame."""

    async def forget(self, message_id: str) -> None:
        """Delete the attempts of an answered message."""

    async def has_trouble(self, attempts: int, seconds: float) -> bool:
        """Whether some message was tried so often, the last time at most so long ago."""

    async def forget_older(self, seconds: float) -> None:
        """Forget the attempts of messages that did not come again."""

    async def find(self, letter_id: str) -> DeadLetter | None:
        """Return the dead letter of this id, or None."""

    async def reopen(self, letter_id: str) -> None:
        """Let the message of a letter take effect after all: it counts as never refused and never
        tried. What took effect meanwhile stays answered."""
