"""A conversation: what the model sees, which runs wait, and where the active one stands.

What is decided about its runs is in `domain/runs`: `run_requests`, `run_steps`, `run_progress`.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any

from libs.contracts.agent.compaction import (
    ContextCleared,
    ContextReplaced,
    ConversationCompacted,
)
from libs.contracts.agent.conversations import (
    ConversationCreated,
    ConversationDeleted,
    Message,
    MessageAppended,
    SystemPromptRebuilt,
    main_conversation,
)
from libs.contracts.agent.stream_chunks import Chunk
from libs.contracts.base_aggregate import SNAPSHOT_EVERY_EVENTS, Aggregate
from libs.contracts.bus_messages import Event
from libs.contracts.letta.runs import RunConfig
from services.agent.domain.conversations.active_run import ActiveRun
from services.agent.domain.conversations.context_window_cache import ContextWindowCache
from services.agent.domain.conversations.conversation_evolution import evolve
from services.agent.domain.conversations.conversation_state import (
    ConversationState,
    SystemPrompt,
)


class Conversation(Aggregate[ConversationState]):
    """One conversation of one agent."""

    State = ConversationState
    begins_with = (MessageAppended, ConversationCreated)

    @cached_property
    def shown_window(self) -> ContextWindowCache:
        """The cached part of the window that models were shown last; not a part of the state."""
        return ContextWindowCache()

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    def is_of(self, agent_id: str) -> bool:
        """Whether it is there and belongs to this agent. The agent's own always does; it may not
        have been read yet where the agent was."""
        if self.state.deleted:
            return False
        return self.state.agent_id == agent_id or self.id == main_conversation(agent_id)

    @property
    def snapshot_every_events(self) -> int:
        """The more runs wait and the more the model is shown, the larger a snapshot is; it is made
        the more rarely, so that a message costs the same however many there are."""
        return max(SNAPSHOT_EVERY_EVENTS, len(self.state.queue), len(self.state.window))

    def begin(self, agent_id: str, system: Message, shows: dict[str, int], *, at: datetime) -> None:
        """Begin to exist, with the system message and what it was made from."""
        self.record(MessageAppended, at=at, agent_id=agent_id, message=system, shows=shows)

    def append(self, message: Message, *, at: datetime, **fields: Any) -> None:
        """Put a message into the history, outside of any run unless the `fields` name one."""
        self.record(MessageAppended, at=at, agent_id=self.state.agent_id, message=message, **fields)

    def delete(self, *, at: datetime) -> None:
        """Delete the conversation; an attempt at a run of it fails at its next commit."""
        if not self.state.deleted:
            self.record(ConversationDeleted, at=at, own_block_ids=self.state.own_blocks)

    def rebuild(self, prompt: SystemPrompt, *, at: datetime) -> None:
        """Replace the content of the system message."""
        message = self.state.window[0].model_copy(update={"content": prompt.content})
        self.record(
            SystemPromptRebuilt,
            at=at,
            agent_id=self.state.agent_id,
            message=message,
            shows=prompt.shows,
        )

    def append_in_step(
        self,
        message: Message,
        *,
        at: datetime,
        number: int | None = None,
        chunks: list[Chunk] | None = None,
    ) -> None:
        """Put a message of the running step into the history."""
        active = self.running()
        if (group_id := group_of(active.run)) is not None:
            sender_id = self.state.agent_id if message.role == "assistant" else message.sender_id
            message = message.model_copy(update={"group_id": group_id, "sender_id": sender_id})
        self.append(
            message,
            at=at,
            run_id=active.run.id,
            step_id=active.step_id,
            number=active.last_number + 1 if number is None else number,
            chunks=chunks,
        )

    def running(self) -> ActiveRun:
        """The active run, where there must be one."""
        return self.state.running

    def record[E: Event](self, event: type[E], *, at: datetime, **fields: Any) -> None:
        """Record an event as the next. Clocks may go back, but no message is listed before those
        that were there."""
        latest = self.state.listed_at
        if issubclass(event, MessageAppended | ConversationCompacted) and latest and at < latest:
            fields["listed_at"] = latest
        super().record(event, at=at, **fields)

    def begin_again(self) -> None:
        """Forget everything, also what models were shown."""
        super().begin_again()
        vars(self).pop("shown_window", None)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        self.state = evolve(self.state, event)
        if isinstance(event, ConversationCompacted | ContextCleared | ContextReplaced):
            # What was evicted is not held any more: it does not count in a cache.
            held = self.state.length.bytes + self.state.queued_bytes
            self.payload_bytes = min(self.payload_bytes, held)


def group_of(run: RunConfig) -> str | None:
    """The group for which a member answers by a run; None for other runs."""
    metadata = run.metadata or {}
    group_id = metadata.get("group_id") if metadata.get("run_type") == "group" else None
    return group_id if isinstance(group_id, str) else None
