"""Archives and folders that get another embedding model are embedded bit by bit, whoever began
it."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from libs.bus.ports import Bus, BusUnavailable, Ids, request_as_service
from libs.contracts.bus_messages import Accepted, Command, Context
from libs.contracts.reembedding import ReembedChunks, ReembedPassages
from services.memory.adapters.archive_queries import ArchiveQueries, Reembedding

log = logging.getLogger(__name__)

# Then it is another one's turn.
BATCHES_PER_SWEEP_MAX = 50


class ReembeddingPolicies:
    """As long as one of them has passages with another model's vectors, go on with it. What was
    embedded is durable, so after a crash another process goes on from there.

    A model that does not answer may take seconds to say so. So an organisation has one such answer
    in each sweep, and what was refused comes after what was not."""

    def __init__(self, bus: Bus, archives: ArchiveQueries, ids: Ids) -> None:
        self.bus = bus
        self.archives = archives
        self.ids = ids
        # Those that were refused, the one first that was so longest ago.
        self.refused: dict[str, None] = {}

    async def sweep(self) -> None:
        """Embed the next passages of each of them."""
        refusing: set[str] = set()
        try:
            for one in self.in_turn(await self.archives.reembeddings()):
                if one.org not in refusing and not await self.reembed(one.collection_id, one.org):
                    refusing.add(one.org)
                    self.refused.pop(one.collection_id, None)
                    self.refused[one.collection_id] = None
        except BusUnavailable as problem:
            log.warning("archives or folders wait to be embedded: %s", problem)

    def in_turn(self, found: Sequence[Reembedding]) -> list[Reembedding]:
        """Those that were never refused, and then the others."""
        by_id = {one.collection_id: one for one in found}
        self.refused = {known: None for known in self.refused if known in by_id}
        fresh = [one for one in found if one.collection_id not in self.refused]
        return [*fresh, *(by_id[known] for known in self.refused)]

    async def reembed(self, collection_id: str, org: str) -> bool:
        """Embed passages of an archive or a folder until none is left, or it is refused; returns
        whether it was not."""
        for _ in range(BATCHES_PER_SWEEP_MAX):
            context = Context(self.ids.new("sweep"), org=org)
            command: Command = (
                ReembedPassages(archive_id=collection_id)
                if collection_id.startswith("archive")
                else ReembedChunks(folder_id=collection_id)
            )
            reply = await request_as_service(self.bus, command, context)
            if not isinstance(reply, Accepted):
                log.warning("%s waits to be embedded: %s", collection_id, reply.reason)
                return False
            if not reply.result.get("embedded"):
                break
        return True
