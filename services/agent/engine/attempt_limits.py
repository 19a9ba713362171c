"""When a run is attempted no more: where attempts are counted, how long a run may take, and what is
kept of one that is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import asdict

from libs.bus.dead_letter_records import FailedMessage
from libs.bus.ports import Clock
from libs.contracts.agent.conversations import SERVICE
from libs.contracts.agent.runs import RunFailed
from libs.contracts.bus_messages import Context, event_subject
from libs.eventstore.failed_messages.ports import DeadLetter
from services.agent.adapters.models.ports import ModelFailed
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.step_results import Failure, answer_too_slow, run_too_slow
from services.agent.settings import Deadlines

# An attempt that fails was a bug here; one that ends with its process may have been killed by
# anybody, and `ATTEMPTS_MAX` of those are made.
FAILURES_MAX = 3


def attempt_point(conversation: Conversation) -> str:
    """Up to where the active run has got: attempts are counted at this point, and anew behind it.
    Empty without a run."""
    active = conversation.state.active_run
    if active is None:
        return ""
    pending = active.open_call
    return f"{active.run.id}.{active.steps}.{pending.call.id if pending else 'model'}"


def dead_letter_of_run(
    conversation: Conversation, context: Context, failed: FailedMessage
) -> DeadLetter:
    """A run at its limit of attempts, as a dead letter that cannot be replayed."""
    active = conversation.running()
    name = RunFailed.topic
    return failed.letter(
        context,
        org=context.org,
        kind="run",
        name=f"{SERVICE}.{name}",
        subject=event_subject(SERVICE, name, context.org, active.run.id),
        message_id=active.run.id,
        payload={
            "run_id": active.run.id,
            "agent_id": conversation.state.agent_id,
            "conversation_id": conversation.id,
            "steps": active.steps,
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


class RunDeadline:
    """When the active run has to end, as one attempt sees that.

    Within an attempt a clock counts that nobody sets. What earlier ones took is in the events of
    the run, whose times come from clocks that may be wrong: see `ActiveRun.seconds`.
    """

    def __init__(self, clock: Clock, deadlines: Deadlines) -> None:
        self.clock = clock
        self.deadlines = deadlines
        self.run_id = ""
        self.end = 0.0

    def seconds_left(self, active: ActiveRun) -> float:
        """The seconds that the run may still take; not above 0 if it is late."""
        if active.run.id != self.run_id:
            self.run_id = active.run.id
            self.end = self.clock.monotonic() + self.deadlines.run_seconds_max - active.seconds
        return self.end - self.clock.monotonic()

    async def hold[T](self, step: Awaitable[T], active: ActiveRun) -> T:
        """The result of a step of the model. Raises ModelFailed when it, or the run, takes too
        long."""
        left, step_max = self.seconds_left(active), self.deadlines.step_seconds_max
        try:
            async with asyncio.timeout(min(left, step_max)) as limit:
                return await step
        except TimeoutError:
            if not limit.expired():
                raise
            late = answer_too_slow("The model", step_max, "step")
            raise ModelFailed(self.failure() if left <= step_max else late) from None

    def failure(self) -> Failure:
        """Why the run ends, as its client is told."""
        return run_too_slow("The run", self.deadlines.run_seconds_max)
