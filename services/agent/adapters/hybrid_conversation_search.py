"""The search in an agent's history by words and by meaning."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from libs.bus.ports import Bus, BusUnavailable
from libs.contracts.bus_messages import Rejected
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.semantic_message_search import CANDIDATES_MIN, NearestMessages
from libs.embeddings.rank_fusion import fused
from services.agent.adapters.conversation_search_queries import (
    ConversationSearch,
    FoundMessage,
    Search,
)
from services.agent.adapters.tool_owner_port import Calling

log = logging.getLogger(__name__)

# Without an answer in this time what has the words is all that is found.
SECONDS_MAX = 5.0


class HybridConversationSearch:
    """Finds what has a text, and what is near to it in meaning, as the memory service knows."""

    def __init__(self, bus: Bus, queries: ConversationSearch) -> None:
        self.bus = bus
        self.queries = queries

    async def search(self, calling: Calling, search: Search) -> list[FoundMessage]:
        """What a call looks for: the best first, both ways fused; without a text the newest
        first. Where the memory service does not answer, or cannot embed, what has the text."""
        if not (search.text or "").strip("\x00 \n\t"):
            return await self.queries.search_messages(search)
        worded, near = await asyncio.gather(
            self.queries.search_messages(search), self.near(calling, search)
        )
        return [one for one, _ in fused(worded, near)][: search.limit]

    async def near(self, calling: Calling, search: Search) -> list[FoundMessage]:
        """What is near to a text in meaning, the nearest first, each once."""
        assert search.text is not None, "a text is near to a text"
        asker = derived_id("search", calling.step_id, calling.call.id)
        command = NearestMessages(
            asker=asker,
            query=search.text.replace("\x00", ""),
            agent_id=search.agent_id,
            roles=search.roles,
            after=search.since,
            before=search.until,
            limit=max(search.limit, CANDIDATES_MIN),
        )
        try:
            context = calling.context.caused(asker)
            reply = await self.bus.request(command, context, seconds_max=SECONDS_MAX)
        except BusUnavailable as away:
            log.warning("messages are found by their words alone: %s", away)
            return []
        if isinstance(reply, Rejected):
            log.warning("messages are found by their words alone: %s", reply.reason)
            return []
        nearest: Any = reply.result["messages"]
        found = await self.queries.messages_named(search, [one["id"] for one in nearest])
        return [*dict.fromkeys(found)]  # a fork has the messages of its source again
