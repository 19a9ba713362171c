"""What is kept of a message that was given up, and how it comes back."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from libs.bus.ports import Bus, IncomingCommand
from libs.bus.shell import Handler
from libs.contracts.dead_letters import DISCARD, REPLAY, LetterCommand, letter_command
from libs.contracts.ids import derived_id
from libs.contracts.message import (
    NOT_FOUND,
    PARKED,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    Json,
    JsonObject,
    Rejected,
    event_subject,
)
from libs.eventstore.letters import (
    DEAD_LETTERS,
    PARKED_STATUS,
    REPLAYED,
    DeadLetter,
    Letters,
)
from libs.eventstore.ports import StoredEvent

if TYPE_CHECKING:
    from libs.bus.consumer import LogConsumer
    from libs.eventstore.work import Work

ERROR_CHARS_MAX = 8_000
REPLAY_SECONDS_MAX = 8.0
NUL = "\x00"
NUL_ESCAPED = b"\\u0000"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message was given up."""

    error_class: str
    error_text: str


@dataclass(frozen=True, slots=True)
class Given:
    """Who gave a message up, why, after how many attempts, since when and when."""

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


def letter_of(incoming: IncomingCommand, given: Given) -> DeadLetter:
    """The letter of a command."""
    context = incoming.context
    payload, text = readable(incoming.payload)
    return given.letter(
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
    upstream: str, event: StoredEvent, context: Context, given: Given
) -> DeadLetter:
    """The letter of an event that a consumer could not digest."""
    where: JsonObject = {"upstream": upstream, "position": event.position}
    return given.letter(
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
    """What whoever waits for the message is told."""
    reason = (
        f"The server failed {letter.attempts} times to handle {letter.name}, for a reason that it "
        f"did not expect, and has put it aside as dead letter {letter.id} (correlation id "
        f"{letter.correlation_id}). Sending it again does not help; when the cause is mended, "
        f"replay the letter."
    )
    return Rejected(code=PARKED, reason=reason)


class DeadLetters:
    """Answers the commands about the dead letters of a service."""

    def __init__(self, service: str, letters: Letters, bus: Bus) -> None:
        self.service = service
        self.letters = letters
        self.bus = bus
        self.consumers: dict[str, LogConsumer] = {}

    def table(self) -> Mapping[type[Command], Handler]:
        """Which command goes where."""
        return {
            letter_command(self.service, REPLAY): self.replay,
            letter_command(self.service, DISCARD): self.discard,
        }

    async def replay(self, command: LetterCommand, work: Work) -> Accepted | Rejected:
        """Try the message again, under its own id: whatever was replayed twice, or took effect
        meanwhile, is answered from the inbox and has no second effect."""
        letter = await self.letters.find(command.letter_id)
        if letter is None or letter.org != work.context.org:
            return missing(command.letter_id)
        if letter.status == REPLAYED:
            return Accepted(result={"status": REPLAYED})
        if letter.kind == "run":
            return Rejected(code=UNPROCESSABLE, reason=NOT_REPLAYABLE)
        await self.letters.reopen(letter.id)
        fields = await self.again(letter)
        work.rows.patch(DEAD_LETTERS, {"id": letter.id, **fields})
        return Accepted(result={"status": fields.get("status", PARKED_STATUS)})

    async def again(self, letter: DeadLetter) -> JsonObject:
        """Try the message of a letter again; what changes in its row."""
        if letter.kind == "event":
            upstream = str(letter.context["upstream"])
            problem = await self.consumers[upstream].react_again(letter)
            if problem is not None:
                return {"status": PARKED_STATUS, **asdict(problem)}
            return {"status": REPLAYED}
        reply = await self.bus.resend(incoming_of(letter), seconds_max=REPLAY_SECONDS_MAX)
        if isinstance(reply, Rejected) and reply.code == PARKED:
            return {}
        return {"status": REPLAYED, "outcome": reply.model_dump(mode="json")}

    async def discard(self, command: LetterCommand, work: Work) -> Accepted | Rejected:
        """Forget a letter; its message stays refused."""
        letter = await self.letters.find(command.letter_id)
        if letter is None or letter.org != work.context.org:
            return missing(command.letter_id)
        work.rows.delete(DEAD_LETTERS, "id", letter.id)
        return Accepted()


NOT_REPLAYABLE = (
    "This letter tells why a run was given up; the run has failed for good and its messages stand "
    "in the history. To try again, send the agent a new message."
)


def missing(letter: str) -> Rejected:
    """The refusal for a letter that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Dead letter with id '{letter}' not found")


def incoming_of(letter: DeadLetter) -> IncomingCommand:
    """The command of a letter as it came."""
    text = letter.payload_text
    payload = text.encode() if text is not None else to_json(letter.payload)
    context = Context(**{name: str(value) for name, value in letter.context.items()})
    return IncomingCommand(letter.name, payload, context, letter.subject)
