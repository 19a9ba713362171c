"""The commands about the dead letters of a service: replay one, discard one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from pydantic_core import to_json

from libs.bus.command_dispatcher import Handler
from libs.bus.event_consumer import EventConsumer
from libs.bus.ports import Bus, IncomingCommand
from libs.contracts.bus_messages import (
    NOT_FOUND,
    PARKED,
    UNPROCESSABLE,
    Accepted,
    Command,
    Context,
    JsonObject,
    NewerVersion,
    Rejected,
)
from libs.contracts.per_service_commands import DISCARD, REPLAY, DeadLetterCommand, letter_command
from libs.eventstore.failed_messages.ports import (
    DEAD_LETTERS,
    PARKED_STATUS,
    REPLAYED,
    DeadLetter,
    DeadLetterStore,
    Kind,
)
from libs.eventstore.unit_of_work import UnitOfWork

REPLAY_SECONDS_MAX = 8.0


class UnknownDeadLetter(NewerVersion):
    """The letter of an event that this process does not follow."""


class DeadLetterCommands:
    """Answers the commands about the dead letters of a service."""

    def __init__(self, service: str, letters: DeadLetterStore, bus: Bus) -> None:
        self.service = service
        self.letters = letters
        self.bus = bus
        self.consumers: dict[str, EventConsumer] = {}

    def table(self) -> Mapping[type[Command], Handler]:
        """Return the handler of each command about dead letters."""
        return {
            letter_command(self.service, REPLAY): self.replay,
            letter_command(self.service, DISCARD): self.discard,
        }

    async def replay(self, command: DeadLetterCommand, work: UnitOfWork) -> Accepted | Rejected:
        """Try the message again, under its own id: whatever was replayed twice, or took effect
        meanwhile, is answered from the inbox and has no second effect."""
        letter = await self.letters.find(command.letter_id)
        if letter is None or letter.org != work.context.org:
            return missing(command.letter_id)
        if letter.status == REPLAYED:
            return Accepted(result={"status": REPLAYED})
        if letter.kind in NOT_REPLAYABLE:
            return Rejected(code=UNPROCESSABLE, reason=NOT_REPLAYABLE[letter.kind])
        await self.letters.reopen(letter.id)
        fields = await self.again(letter)
        work.rows.patch(DEAD_LETTERS, {"id": letter.id, **fields})
        return Accepted(result={"status": fields.get("status", PARKED_STATUS)})

    async def again(self, letter: DeadLetter) -> JsonObject:
        """Try the message of a letter again; what changes in its row."""
        if letter.kind == "event":
            consumer = self.consumers.get(str(letter.context["upstream"]))
            if consumer is None:
                raise UnknownDeadLetter(letter.name)
            problem = await consumer.react_again(letter)
            if problem is not None:
                return {"status": PARKED_STATUS, **asdict(problem)}
            return {"status": REPLAYED}
        reply = await self.bus.resend(incoming_of(letter), seconds_max=REPLAY_SECONDS_MAX)
        if isinstance(reply, Rejected) and reply.code == PARKED:
            return {}
        return {"status": REPLAYED, "outcome": reply.model_dump(mode="json")}

    async def discard(self, command: DeadLetterCommand, work: UnitOfWork) -> Accepted | Rejected:
        """Forget a letter; its message stays refused."""
        letter = await self.letters.find(command.letter_id)
        if letter is None or letter.org != work.context.org:
            return missing(command.letter_id)
        work.rows.delete(DEAD_LETTERS, "id", letter.id)
        return Accepted()


NOT_REPLAYABLE: Mapping[Kind, str] = {
    "run": "This letter tells why a run was given up; the run has failed for good and its messages"
    " stand in the history. To try again, send the agent a new message.",
    "work": "This letter tells why the work that `payload` names was given up; it has ended as"
    " failed. To try again, request it anew.",
}


def missing(letter: str) -> Rejected:
    """The refusal for a letter that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Dead letter with id '{letter}' not found")


def incoming_of(letter: DeadLetter) -> IncomingCommand:
    """The command of a letter as it came."""
    text = letter.payload_text
    payload = text.encode() if text is not None else to_json(letter.payload)
    context = Context(**{name: str(value) for name, value in letter.context.items()})
    return IncomingCommand(letter.name, payload, context, letter.subject)
