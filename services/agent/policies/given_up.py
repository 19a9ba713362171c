"""When a turn is no longer driven: how its drives are counted, and what is kept of it."""

from __future__ import annotations

import contextlib
from dataclasses import asdict

from libs.bus.dead_letters import Given
from libs.bus.solitude import Solitude, Ticket
from libs.contracts.conversation import SERVICE, RunFailed
from libs.contracts.message import Context, event_subject
from libs.eventstore.letters import Attempt, DeadLetter, Letters
from libs.eventstore.ports import StoreUnavailable
from services.agent.domain.conversation import Conversation
from services.agent.domain.turn import Failure, Turn

# A drive that fails was a bug here; one that ends with its process may have been killed by anybody.
FAILURES_MAX = 3
DRIVES_MAX = 5
# A turn that was driven so often is not driven again beside other doubtful ones; nor so soon after
# the drive before began, lest a process that it kills is never there for the others.
CROWD_DRIVES_MAX = 2
REST_SECONDS = 5.0
REST_SECONDS_MIN = 0.1


def standing(turn: Turn) -> str:
    """Where a turn stands: drives are counted at this point, and anew when it has got on."""
    pending = turn.open_call
    return f"{turn.run.id}.{turn.steps}.{pending.call.id if pending else 'model'}"


def letter_of_run(conversation: Conversation, context: Context, given: Given) -> DeadLetter:
    """What is kept of a run that is given up; it cannot be replayed, only read."""
    turn = conversation.running()
    name = RunFailed.topic
    return given.letter(
        context,
        org=context.org,
        kind="run",
        name=f"{SERVICE}.{name}",
        subject=event_subject(SERVICE, name, context.org, turn.run.id),
        message_id=turn.run.id,
        payload={
            "run_id": turn.run.id,
            "agent_id": conversation.state.agent_id,
            "conversation_id": conversation.id,
            "steps": turn.steps,
        },
        payload_text=None,
        context=asdict(context),
    )


def gave_up(letter: DeadLetter) -> Failure:
    """Why the run ends, as its client is told."""
    return Failure(
        "internal_error",
        f"The run failed {letter.attempts} times for a reason that the server did not expect, and"
        f" was given up. Dead letter {letter.id} says more.",
        stop_reason="error",
    )


class DriveCount:
    """How often the turn of a conversation was driven from where it stands, as one drive of it
    sees that. The first drive is not written down; whoever takes over knows of it."""

    def __init__(self, letters: Letters, solitude: Solitude) -> None:
        self.letters = letters
        self.solitude = solitude
        self.point = ""
        self.begun: Attempt | None = None
        self.ticket: Ticket | None = None

    async def begin(self, conversation: Conversation) -> Attempt | None:
        """Count a drive that takes a turn over, unless the turn rests; a doubtful one waits until
        it is alone."""
        turn = conversation.state.turn
        if turn is None:
            return None
        self.point = standing(turn)
        begin = self.letters.begin
        self.begun = await begin(self.point, known=1, hold_seconds=0.0, crowd_max=CROWD_DRIVES_MAX)
        if self.begun.crowded:
            self.ticket = self.ticket or await self.solitude.enter()
            self.begun = await begin(self.point, known=1, hold_seconds=REST_SECONDS)
            if self.begun.number:
                self.solitude.limit(self.ticket, self.begun.number)
            else:
                self.end()
        return self.begun

    def counts(self, conversation: Conversation) -> bool:
        """Whether the turn still stands where the drive was begun."""
        turn = conversation.state.turn
        return turn is not None and standing(turn) == self.point

    async def failed(self, conversation: Conversation) -> Attempt | None:
        """Count that the drive has failed where the turn stands now."""
        turn = conversation.state.turn
        if turn is None:
            return None
        point = standing(turn)
        number = self.begun.number if self.begun and point == self.point else 1
        return await self.letters.failed(point, number, 0.0)

    async def excuse(self) -> None:
        """The drive was ended from outside and does not count."""
        if self.begun and self.begun.number:
            with contextlib.suppress(StoreUnavailable):
                await self.letters.excuse(self.point)

    def end(self) -> None:
        """The drive is over: let the next doubtful one begin."""
        if self.ticket:
            self.ticket.give_back()
            self.ticket = None
