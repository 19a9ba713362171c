"""A run as its conversation has recorded it: where it stood before a step, and what came then."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime

from libs.contracts.agent.compaction import ConversationCompacted, RetriedContentRefused
from libs.contracts.agent.conversations import SystemPromptRebuilt
from libs.contracts.agent.runs import (
    QueuedRunsCancelled,
    RunCancelled,
    RunCompleted,
    RunFailed,
)
from libs.contracts.agent.steps import ModelReplied
from libs.contracts.bus_messages import Event
from services.agent.domain.conversations.conversation import Conversation
from services.agent.domain.runs.run_actions import AskModel
from services.agent.domain.runs.run_progress import next_action

ENDS = (RunCompleted, RunFailed, RunCancelled)
# What is recorded when a model is asked, or instead of that.
ASKING = (
    *(SystemPromptRebuilt, ConversationCompacted, RetriedContentRefused, ModelReplied),
    *ENDS,
)


type ShownAsThen = SystemPromptRebuilt | ConversationCompacted | RetriedContentRefused


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in the log: a commit in the order of commits, and when it was made."""

    order: int
    at: datetime


@dataclass(slots=True)
class RecordedStep:
    """The events recorded of one step before its model answered: the new system messages, the
    compactions, and the new omissions. `moment` is the newest commit before it."""

    moment: Moment
    before: list[ShownAsThen] = field(default_factory=list)
    is_answered: bool = False


class RecordedRun:
    """The events of a conversation, taken one after the other: those up to the question of the step
    `from_step` are folded, those that belong to the run and come then are kept."""

    def __init__(self, conversation_id: str, run_id: str, from_step: int) -> None:
        self.conversation = Conversation.blank(conversation_id)
        self.run_id = run_id
        self.from_step = from_step
        self.events: list[Event] = []
        self.steps: dict[int, RecordedStep] = {}
        self.moment = Moment(0, datetime.min.replace(tzinfo=UTC))
        self.is_reached = False
        self.is_over = False

    def take(self, event: Event, order: int) -> None:
        """Take the next event, which was committed in this order."""
        if self.is_over:
            return
        if not self.is_reached and self.is_asking(event):
            self.reach()
        if self.is_reached:
            self.keep(event)
        else:
            event.mutate(self.conversation)
            self.is_over = self.ends_run(event)
        self.moment = Moment(order, event.timestamp)

    def skip(self, version: int) -> None:
        """Pass an event that says nothing of the conversation."""
        if not self.is_reached:
            self.conversation.version = version

    def is_asking(self, event: Event) -> bool:
        """Whether the model is asked for the first step that is replayed when this comes."""
        active = self.conversation.state.active_run
        if active is None or active.run.id != self.run_id or not isinstance(event, ASKING):
            return False
        if active.steps != self.from_step - 1:
            return False
        return isinstance(next_action(self.conversation.state), AskModel)

    def reach(self) -> None:
        """The replay begins here: no other run follows in it."""
        self.is_reached = True
        self.conversation.state.queue = []
        self.conversation.state.queued_bytes = 0

    @property
    def number(self) -> int:
        """The number of the step that comes next."""
        return self.from_step + sum(step.is_answered for step in self.steps.values())

    def keep(self, event: Event) -> None:
        """Keep an event of the run."""
        number = self.number
        if isinstance(event, ASKING):
            step = self.steps.setdefault(number, RecordedStep(self.moment))
            if isinstance(event, ShownAsThen.__value__):
                step.before.append(event)
            step.is_answered = isinstance(event, ModelReplied)
        run_id = getattr(event, "run_id", None)
        if run_id == self.run_id:
            self.events.append(event)
        self.is_over = self.ends_run(event)

    def ends_run(self, event: Event) -> bool:
        """Whether the run is over with this event."""
        if isinstance(event, QueuedRunsCancelled):
            return self.run_id in event.run_ids
        return isinstance(event, ENDS) and event.run_id == self.run_id

    def moment_of(self, number: int) -> Moment:
        """The newest commit before the question of a step; of one that was not recorded, that
        before the last one."""
        known = [place for place in self.steps if place <= number]
        return self.steps[max(known)].moment if known else self.moment
