"""The search among passages: a read that embeds its query first, so a command that keeps no reply.

What an agent sees is decided here and nowhere else: the archives that are attached to it, of its
organisation. The names of collections that are somebody else's are dropped before the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from pydantic_core import to_json

from libs.bus.command_dispatcher import Handler
from libs.contracts.bus_messages import UNPROCESSABLE, Accepted, Command, Rejected
from libs.contracts.memory.archives import (
    PASSAGES_FOUND_MAX,
    FoundPassage,
    FoundPassages,
    SearchPassages,
)
from libs.embeddings.ports import Embedder, EmbeddingFailed, EmbeddingRefused
from libs.eventstore.unit_of_work import UnitOfWork
from services.memory.adapters.archive_queries import COLLECTIONS_MAX, Collection
from services.memory.adapters.passage_search import PassageQuery, QueryVector
from services.memory.domain.archive import missing_agent
from services.memory.handlers.embedding_errors import not_embedded
from services.memory.handlers.ports import HandlerPorts

QUERY_CHARS_MAX = 100_000
REPLY_BYTES_MAX = 4 << 20
BYTES_BESIDES = 200  # of a passage in a reply, besides its document
MODELS_MAX = 8

# Vectors are compared with those of the same model and of the same length.
type Space = tuple[str, int]


class PassageSearchHandlers:
    """Answers searches."""

    def __init__(self, ports: HandlerPorts) -> None:
        self.archives = ports.archives
        self.embedders = ports.embedders
        self.passages = ports.passages

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {SearchPassages: self.search_passages}

    async def search_passages(
        self, command: SearchPassages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """The passages that fit, the best first."""
        refused = unfit_search(command)
        if refused:
            return refused
        org = work.context.org
        visible = await self.visible(command, org)
        if isinstance(visible, Rejected):
            return visible
        try:
            vectors = await self.vectors(command.query, visible, org)
        except EmbeddingFailed as failed:
            return not_embedded(failed)
        query = PassageQuery(
            org=org,
            collection_ids=[collection.id for collection in visible],
            vectors=vectors,
            text=command.query or None,
            tags=command.tags,
            tag_match=command.tag_match,
            after=command.after,
            before=command.before,
            file_ids=command.file_ids,
            limit=command.limit,
        )
        found = await self.passages.search(query) if visible else []
        return Accepted(result=reply_of(found).model_dump(mode="json"))

    async def visible(self, command: SearchPassages, org: str) -> list[Collection] | Rejected:
        """The collections that a search may look into: an agent's, those that are named, those that
        are both, or all."""
        named = command.collection_ids
        if command.agent_id:
            found = await self.archives.collections_of(org, command.agent_id)
            if not found and await self.archives.agent(org, command.agent_id) is None:
                return missing_agent(command.agent_id)
            return [each for each in found if not named or each.id in named]
        if named:
            return await self.archives.named_collections(org, named)
        return await self.archives.all_collections(org)

    async def vectors(
        self, query: str, visible: Sequence[Collection], org: str
    ) -> tuple[QueryVector, ...]:
        """The query as each model embeds it that a collection is embedded by. Where one of several
        models cannot be used, its collections are searched for the words alone."""
        if not query.strip() or not visible:
            return ()
        embedders: dict[Space, Embedder] = {}
        refusals: list[EmbeddingRefused] = []
        for collection in visible:
            try:
                embedder = self.embedders.for_config(collection.embedding_config, org)
                embedders.setdefault(space_of(embedder), embedder)
            except EmbeddingRefused as refused:
                refusals.append(refused)
        found: list[QueryVector] = []
        for embedder in [*embedders.values()][:MODELS_MAX]:
            try:
                found.append(QueryVector(embedder.model, (await embedder.embed([query]))[0]))
            except EmbeddingRefused as refused:
                refusals.append(refused)
        if refusals and not found:
            raise refusals[0]
        return (*found, *await self.previous_vectors(query, visible, {*embedders}, org))

    async def previous_vectors(
        self, query: str, visible: Sequence[Collection], known: set[Space], org: str
    ) -> list[QueryVector]:
        """The same by what embedded a collection before, as far as it still answers: what has no
        new vector yet is found by its old one."""
        found: list[QueryVector] = []
        for config in [config for collection in visible for config in collection.previous][
            :MODELS_MAX
        ]:
            with suppress(EmbeddingFailed):
                embedder = self.embedders.for_config(config, org)
                if space_of(embedder) not in known:
                    known.add(space_of(embedder))
                    found.append(QueryVector(embedder.model, (await embedder.embed([query]))[0]))
        return found


def space_of(embedder: Embedder) -> Space:
    """The space in which an embedder's vectors can be compared."""
    return embedder.model, embedder.dimensions


def unfit_search(command: SearchPassages) -> Rejected | None:
    """Why a search is not carried out, if so."""
    if len(command.query) > QUERY_CHARS_MAX:
        reason = f"`query` may have at most {QUERY_CHARS_MAX} characters: shorten it"
    elif not 1 <= command.limit <= PASSAGES_FOUND_MAX:
        reason = f"`limit` must be 1 to {PASSAGES_FOUND_MAX}, and is {command.limit}"
    elif len(command.collection_ids) > COLLECTIONS_MAX:
        reason = f"At most {COLLECTIONS_MAX} archives or folders are searched at once"
    elif command.after and command.before and command.after > command.before:
        reason = (
            f"The start ({command.after.isoformat()}) is after the end"
            f" ({command.before.isoformat()}): give the earlier one as the start"
        )
    else:
        return None
    return Rejected(code=UNPROCESSABLE, reason=reason)


def reply_of(found: Sequence[FoundPassage]) -> FoundPassages:
    """The found passages as the reply has them: as many as fit into a message, the best first."""
    shown: list[FoundPassage] = []
    left = REPLY_BYTES_MAX
    for passage in found:
        left -= len(to_json(passage.fields)) + BYTES_BESIDES
        if left < 0 and shown:
            break
        shown.append(passage)
    return FoundPassages(passages=shown)
