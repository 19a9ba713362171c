"""The language of the agent service: batches of messages, each item answered by a run of its own.

The id of an item's run follows from the batch and the number of the item, so that an item is
answered once, however often somebody tries. The results of its items stay with the batch: they
outlive the conversations that the items ran in.
"""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import ClassVar, Literal

from pydantic import Field

from libs.contracts.agent.conversations import Message
from libs.contracts.agent.runs import ClientSkill, ClientTool, RunOptions, StartRun
from libs.contracts.bus_messages import Command, Event, JsonObject, Value, is_none
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.message_requests import BATCH_ITEMS_MAX, MAX_STEPS_DEFAULT
from libs.contracts.letta.runs import RunConfig

SERVICE = "agent"

ITEMS_MAX = BATCH_ITEMS_MAX
# Of one batch, and of one agent over all its batches.
ITEMS_AT_ONCE_MAX = 5

BatchStatus = Literal["created", "running", "completed", "failed", "cancelled"]
ItemStatus = Literal["completed", "failed", "cancelled"]


def run_of_item(batch_id: str, number: int) -> str:
    """The id of the run that answers an item."""
    return derived_id("run", batch_id, str(number))


def conversation_of_item(batch_id: str, number: int) -> str:
    """The id of the conversation of an item that has one of its own."""
    return derived_id("conv", batch_id, str(number))


def item_id(batch_id: str, number: int) -> str:
    """The id of an item; items are numbered from 0, as in the request."""
    return derived_id("batch_item", batch_id, str(number))


class BatchItem(Value):
    """Messages of a batch, and the run that answers them: in a conversation of its own, or, where
    the run names none, in that which the agent always has. `custom_id` is the client's own."""

    run: RunConfig
    messages: list[Message]
    max_steps: int = MAX_STEPS_DEFAULT
    options: RunOptions | None = Field(default=None, exclude_if=is_none)
    structured_summaries: bool = Field(default=False, exclude_if=not_)
    client_tools: list[ClientTool] = Field(default_factory=list, exclude_if=not_)
    client_skills: list[ClientSkill] = Field(default_factory=list, exclude_if=not_)
    custom_id: str | None = Field(default=None, exclude_if=is_none)

    def start_command(self) -> StartRun:
        """The command that starts the run."""
        return StartRun(
            agent_id=self.run.agent_id,
            conversation_id=self.run.conversation_id,
            run=self.run,
            messages=self.messages,
            max_steps=self.max_steps,
            request_hash=self.run.id,
            options=self.options,
            structured_summaries=self.structured_summaries,
            client_tools=self.client_tools,
            client_skills=self.client_skills,
        )


class BatchCommand(Command, service=SERVICE):
    """A command about one batch."""

    batch_id: str

    @property
    def target(self) -> str:
        return self.batch_id


class StartBatch(BatchCommand, topic="batch.start"):
    """Answer the messages of many items, each in a run of its own; `agent_id` is that of all items,
    empty where each says its own.

    At most `at_once` run at the same time. Conversations that were made for the items are removed
    once their results are recorded, unless the client wants to `keep` them. `field` is how the
    request calls its items, for refusals."""

    agent_id: str = Field(default="", exclude_if=not_)
    items: list[BatchItem] = Field(min_length=1, max_length=ITEMS_MAX)
    at_once: int = Field(default=ITEMS_AT_ONCE_MAX, ge=1, le=ITEMS_AT_ONCE_MAX)
    keep: bool = False
    callback_url: str | None = None
    field: str = "items"


class CancelBatch(BatchCommand, topic="batch.cancel"):
    """Start no more items of a batch, and cancel the runs of those that were started; of this
    agent's batch, where it names one."""

    agent_id: str = Field(default="", exclude_if=not_)


class BatchEvent(Event, service=SERVICE):
    """A fact about one batch."""


class BatchAccepted(BatchEvent, topic="batch.accepted"):
    """These items will be answered, in the name of `actor`; what follows belongs to the story
    `correlation_id`."""

    agent_id: str = Field(default="", exclude_if=not_)
    items: list[BatchItem]
    at_once: int
    keep: bool
    callback_url: str | None = None
    actor: str
    correlation_id: str


class BatchItemsStarted(BatchEvent, topic="batch.items_started"):
    """The runs of these items are about to be started."""

    numbers: list[int]


class ItemOutcome(Value):
    """The outcome of an item: the V1 messages and the usage of its run; for one that was not
    answered the reason. With `cut` a part was too long to be kept."""

    number: int
    status: ItemStatus
    stop_reason: str = ""
    reason: str = ""
    messages: list[JsonObject] = Field(default_factory=list)
    usage: JsonObject | None = Field(default=None, exclude_if=is_none)
    cut: bool = Field(default=False, exclude_if=not_)


class BatchItemEnded(BatchEvent, topic="batch.item_ended"):
    """An item has its result."""

    outcome: ItemOutcome


class BatchCancelled(BatchEvent, topic="batch.cancelled"):
    """No more items are started: these were not yet, and are cancelled."""

    numbers: list[int]


class BatchCallbackAttempted(BatchEvent, topic="batch.callback_attempted"):
    """A client was told that its batch has ended, or could not be.

    `status_code` is what it answered, `error` why it did not; it is told again at `next_at`, if
    that is not null.
    """

    additive: ClassVar[bool] = True
    attempts: int
    sent_at: datetime
    status_code: int | None = None
    error: str | None = None
    next_at: datetime | None = None


class BatchCompleted(BatchEvent, topic="batch.completed"):
    """Every item has ended, and the conversations that were to go are gone."""

    status: BatchStatus
