"""What happens to the vectors of messages when their conversation is deleted."""

from __future__ import annotations

from libs.contracts.bus_messages import Context, Event
from services.memory.adapters.message_vectors import MessageVectors


class MessagePolicies:
    """Vectors are no aggregates: what is to be removed is a row, and not a command."""

    def __init__(self, vectors: MessageVectors) -> None:
        self.vectors = vectors

    async def conversation_deleted(self, event: Event, context: Context) -> None:
        """The vectors of its messages go with a conversation."""
        await self.vectors.forget(context.org, event.originator_id)
