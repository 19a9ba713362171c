"""The search for messages by meaning: a read that embeds, so a command that keeps no reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Command, Json, Rejected
from libs.contracts.memory.semantic_message_search import MESSAGES_FOUND_MAX, NearestMessages
from libs.embeddings.ports import EmbeddingFailed
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.adapters.message_vectors import MessageScope, NearestQuery
from services.memory.handlers.embedding_errors import not_embedded
from services.memory.handlers.ports import HandlerPorts

QUERY_CHARS_MAX = 10_000
# Texts that are about different things have 0.1, one in thirty such pairs more than this; questions
# and the sentences that answer them in other words 0.3 to 0.6. By the embedded model, as all here.
# One of twenty answers has 0.26; a lower bound, or one by how far a text stands out among others,
# brings in ten wrong ones for it (ADR 53).
SIMILARITY_MIN = 0.25


class MessageSearchHandlers:
    """Answers searches."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.embedders = ports.embedders
        self.vectors = ports.message_vectors
        self.embed_messages = ports.embed_messages

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {NearestMessages: self.nearest_messages}

    async def nearest_messages(
        self, command: NearestMessages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """The messages that are nearest to a query, the nearest first."""
        refused = unfit_search(command)
        if refused:
            return refused
        scope = MessageScope(work.context.org, command.agent_id, command.conversation_id)
        embedder = self.embedders.for_config(None, scope.org)
        try:
            [vector] = await embedder.embed([command.query])
        except EmbeddingFailed as failed:
            return not_embedded(failed)
        await self.embed_messages(scope)
        query = NearestQuery(
            scope=scope,
            model=embedder.model,
            vector=vector,
            roles=command.roles,
            project_id=command.project_id,
            template_id=command.template_id,
            after=command.after,
            before=command.before,
            similarity_min=SIMILARITY_MIN,
            limit=command.limit,
        )
        found = await self.vectors.nearest(query)
        shown: list[Json] = [
            {"id": message_id, "similarity": similarity} for message_id, similarity in found
        ]
        return Accepted(result={"messages": shown})


def unfit_search(command: NearestMessages) -> Rejected | None:
    """Why a search is not carried out, if so."""
    if not command.query.strip():
        reason = "`query` is empty: say in words what you are looking for"
    elif len(command.query) > QUERY_CHARS_MAX:
        reason = f"`query` may have at most {QUERY_CHARS_MAX} characters: shorten it"
    elif not 1 <= command.limit <= MESSAGES_FOUND_MAX:
        reason = f"`limit` must be 1 to {MESSAGES_FOUND_MAX}, and is {command.limit}"
    else:
        return None
    return Rejected(code=UNPROCESSABLE, reason=reason)
