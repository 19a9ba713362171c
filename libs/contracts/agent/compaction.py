"""The language of the agent service about what models are shown of a conversation: a summary in the
place of its older part, or nothing of it. What is shown no more stays in the history."""

from __future__ import annotations

from datetime import datetime
from operator import not_
from typing import ClassVar

from pydantic import Field

from libs.contracts.agent.conversations import (
    ConversationEvent,
    Message,
    RunCommand,
    RunEvent,
    Usage,
)
from libs.contracts.agent.runs import RequestRun
from libs.contracts.bus_messages import JsonObject


class CompactConversation(RequestRun, topic="conversation.compact"):
    """Compact the conversation when its turn comes, as the agent's settings say but for these, in a
    run that answers nothing."""

    settings: JsonObject = Field(default_factory=dict)


class ClearContext(RunCommand, topic="context.clear"):
    """Show models nothing of a conversation any more but the system message, made anew."""


class ReplaceContext(RunCommand, topic="context.replace"):
    """Show models exactly these messages of a conversation from now on, all of which it has or had.

    A call whose result is not among them stays away, and so does a result without its call. With
    `restored_from` they are what models were shown as of that event."""

    message_ids: list[str]
    restored_from: str = Field(default="", exclude_if=not_)


class ShowLeftOut(RunCommand, topic="context.show_left_out"):
    """Show models again what was left out of a conversation because a provider had refused it."""


class ListLeftOut(RunCommand, topic="context.list_left_out"):
    """Say what is left out of a conversation because a provider refused it, and whether it is shown
    again just now (`on_trial`); nothing changes."""

    keeps_reply: ClassVar[bool] = False


class RetriedContentRefused(RunEvent, topic="retried_content.refused"):
    """A model refused omitted content that it was shown again: it is left out again."""

    agent_id: str
    step_id: str
    error_type: str
    message: str


class ConversationCompacted(RunEvent, topic="conversation.compacted"):
    """Models are shown a summary in the place of the older messages, which stay in the history."""

    agent_id: str
    step_id: str
    message: Message
    # The messages that are shown no more: all behind the system message, up to one.
    evicted: list[str]
    # How the summary was made; who wrote it, if a model did, and why others did not.
    mode: str
    model: str | None = None
    failures: list[str] = Field(default_factory=list)
    usage: Usage = Field(default_factory=Usage)
    # The number under which clients receive the summary.
    number: int
    # As of a message that is appended.
    listed_at: datetime | None = Field(default=None, exclude_if=not_)


class ContextCleared(ConversationEvent, topic="context.cleared"):
    """Models are shown no older messages any more, which stay in the history."""

    evicted: list[str]


class ContextReplaced(ConversationEvent, topic="context.replaced"):
    """Models are shown exactly these messages, in this order; all others stay in the history.

    `evicted` are those of the ones before that are shown no more, `returned` the messages that were
    not shown any more and are again. With `restored_from` it is the context as of that event."""

    agent_id: str
    message_ids: list[str]
    evicted: list[str] = Field(default_factory=list)
    returned: list[Message] = Field(default_factory=list)
    restored_from: str = Field(default="", exclude_if=not_)
