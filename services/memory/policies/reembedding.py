"""Archives and folders that get another embedding model are embedded bit by bit, whoever began
it."""

from __future__ import annotations

import logging

from libs.bus.ports import Bus, BusUnavailable, Ids, request_as_service
from libs.contracts.bus_messages import Accepted, Command, Context
from libs.contracts.reembedding import ReembedChunks, ReembedPassages
from services.memory.adapters.archive_queries import ArchiveQueries

log = logging.getLogger(__name__)

# Then it is another one's turn.
BATCHES_PER_SWEEP_MAX = 50


class ReembeddingPolicies:
    """As long as one of them has passages with another model's vectors, go on with it. What was
    embedded is durable, so after a crash another process goes on from there."""

    def __init__(self, bus: Bus, archives: ArchiveQueries, ids: Ids) -> None:
        self.bus = bus
        self.archives = archives
        self.ids = ids

    async def sweep(self) -> None:
        """Embed the next passages of each of them."""
        try:
            for one in await self.archives.reembeddings():
                await self.reembed(one.collection_id, one.org)
        except BusUnavailable as problem:
            log.warning("archives or folders wait to be embedded: %s", problem)

    async def reembed(self, collection_id: str, org: str) -> None:
        """Embed passages of an archive or a folder until none is left, or it is refused: then
        later."""
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
                return
            if not reply.result.get("embedded"):
                return
