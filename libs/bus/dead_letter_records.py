"""The dead letter of a message that failed for good: what failed, why, and how often."""

from __future__ import annotations

import json
import traceback
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from libs.bus.ports import IncomingCommand
from libs.contracts.bus_messages import PARKED, Context, Json, JsonObject, Rejected, event_subject
from libs.contracts.deterministic_ids import derived_id
from libs.eventstore.failed_messages.ports import DeadLetter
from libs.eventstore.ports import StoredEvent

ERROR_CHARS_MAX = 8_000
NUL = "\x00"
NUL_ESCAPED = b"\\u0000"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message failed for good."""

    error_class: str
    error_text: str


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """A message that failed for good: where, why, after how many attempts, since when and when."""

    service: str
    problem: Problem
    attempts: int
    first_at: datetime | None
    at: datetime

    def letter(self, context: Context, /, **own: Any) -> DeadLetter:
        """The letter of a message; `own` is what its kind says of it, `message_id` included."""
        return DeadLetter(
            id=letter_id(self.service, own["message_id"]),
            created_at=self.at,
            service=self.service,
            attempts=self.attempts,
            first_at=self.first_at or self.at,
            last_at=self.at,
            error_class=self.problem.error_class,
            error_text=self.problem.error_text,
            correlation_id=context.correlation_id,
            **own,
        )


DIED = Problem(
    "ProcessDied",
    "Whoever handled this message did not live to say how it ended, each time. It may have been"
    " killed by it: look at what ended the processes of the service.",
)


def problem_of(bug: BaseException) -> Problem:
    """The class and the end of the traceback of an exception, as text that Postgres can keep."""
    text = "".join(traceback.format_exception(bug)).replace(NUL, "")
    kind = type(bug)
    name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
    return Problem(name, text[-ERROR_CHARS_MAX:])


def letter_id(service: str, message_id: str) -> str:
    """The id of the letter of a message: the same however often it is parked."""
    return derived_id("letter", service, message_id)


def letter_of(incoming: IncomingCommand, failed: FailedMessage) -> DeadLetter:
    """The letter of a command."""
    context = incoming.context
    payload, text = readable(incoming.payload)
    return failed.letter(
        context,
        org=context.org,
        kind="command",
        name=incoming.name,
        subject=incoming.subject,
        message_id=context.message_id,
        payload=payload,
        payload_text=text,
        context=asdict(context),
    )


def letter_of_event(
    upstream: str, event: StoredEvent, context: Context, failed: FailedMessage
) -> DeadLetter:
    """The letter of an event that a consumer could not digest."""
    where: JsonObject = {"upstream": upstream, "position": event.position}
    return failed.letter(
        context,
        org=event.org,
        kind="event",
        name=f"{upstream}.{event.topic}",
        subject=event_subject(upstream, event.topic, event.org, event.about),
        message_id=f"{upstream}.{context.message_id}",
        payload=event.payload,
        payload_text=None,
        context={**asdict(context), **where},
    )


def letter_of_work(work: str, work_id: str, context: Context, failed: FailedMessage) -> DeadLetter:
    """The letter of a piece of long work that is given up; it cannot be replayed, only read."""
    return failed.letter(
        context,
        org=context.org,
        kind="work",
        name=f"{failed.service}.{work.replace(' ', '_')}",
        subject="",
        message_id=attempts_of_work(work_id),
        payload={"work": work, "id": work_id},
        payload_text=None,
        context=asdict(context),
    )


def attempts_of_work(work_id: str) -> str:
    """By what the attempts at a piece of work are counted: no message has this id."""
    return f"work.{work_id}"


def readable(payload: bytes) -> tuple[Json, str | None]:
    """A payload as JSON, or as text where it is none that Postgres can keep."""
    try:
        if NUL_ESCAPED not in payload:
            parsed = from_json(payload, allow_inf_nan=False)
            json.dumps(parsed, allow_nan=False)  # 1e400 is JSON, but no number that can be written
            return parsed, None
    except ValueError:
        pass
    return None, payload.decode(errors="backslashreplace").replace(NUL, "\\x00")


def refusal(letter: DeadLetter) -> Rejected:
    """The refusal to the sender that waits for the message."""
    reason = (
        f"The server failed {letter.attempts} times to handle {letter.name}, for a reason that it "
        f"did not expect, and has put it aside as dead letter {letter.id} (correlation id "
        f"{letter.correlation_id}). Sending it again does not help; when the cause is mended, "
        f"replay the letter."
    )
    return Rejected(code=PARKED, reason=reason)
