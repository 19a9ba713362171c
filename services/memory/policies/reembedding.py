"""Archives and folders that get another embedding model are embedded bit by bit, whoever began
it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from libs.bus.ports import Bus, BusUnavailable, Clock, Ids, request_as_service
from libs.contracts.bus_messages import Accepted, Command, Context
from libs.contracts.memory.reembedding import ReembedChunks, ReembedPassages
from services.memory.adapters.archive_queries import ArchiveQueries, Reembedding

log = logging.getLogger(__name__)

# Then it is another one's turn.
BATCHES_PER_SWEEP_MAX = 50
# Longer than a model may take, so that it is heard why it gave none.
BATCH_SECONDS_MAX = 70.0
RETRY_SECONDS = 5.0
RETRY_SECONDS_MAX = 60.0


class Refused(Exception):
    """The next passages cannot be embedded now; the words say why."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The seconds until a refused command is retried, and the time of that by the monotonic
    clock."""

    seconds: float = RETRY_SECONDS / 2
    until: float = 0.0


class ReembeddingPolicies:
    """As long as one of them has passages with another model's vectors, go on with it. What was
    embedded is durable, so after a crash another process goes on from there.

    A model that does not answer may take seconds to say so. So an organisation has one such answer
    in each sweep, and what was refused is retried, the later the more often that was."""

    def __init__(self, bus: Bus, archives: ArchiveQueries, clock: Clock, ids: Ids) -> None:
        self.bus = bus
        self.archives = archives
        self.clock = clock
        self.ids = ids
        self.backoffs: dict[str, Backoff] = {}

    async def sweep(self) -> None:
        """Embed the next passages of each of them."""
        refusing: set[str] = set()
        for reembedding in self.due(await self.archives.reembeddings()):
            if reembedding.org in refusing:
                continue
            try:
                await self.reembed(reembedding.collection_id, reembedding.org)
                self.backoffs.pop(reembedding.collection_id, None)
            except (Refused, BusUnavailable) as problem:
                log.warning("%s waits to be embedded: %s", reembedding.collection_id, problem)
                refusing.add(reembedding.org)
                self.back_off(reembedding.collection_id)

    def due(self, found: Sequence[Reembedding]) -> list[Reembedding]:
        """Those that were not refused, and then those that are to be retried."""
        known, now = {reembedding.collection_id for reembedding in found}, self.clock.monotonic()
        self.backoffs = {name: backoff for name, backoff in self.backoffs.items() if name in known}
        since = {name: backoff.until for name, backoff in self.backoffs.items()}
        due = [each for each in found if since.get(each.collection_id, 0.0) <= now]
        return sorted(due, key=lambda each: since.get(each.collection_id, 0.0))

    def back_off(self, collection_id: str) -> None:
        """Have one that was refused retried later."""
        before = self.backoffs.get(collection_id, Backoff())
        seconds = min(before.seconds * 2, RETRY_SECONDS_MAX)
        self.backoffs[collection_id] = Backoff(seconds, self.clock.monotonic() + seconds)

    async def reembed(self, collection_id: str, org: str) -> None:
        """Embed passages of an archive or a folder until none is left. Raises Refused."""
        for _ in range(BATCHES_PER_SWEEP_MAX):
            context = Context(self.ids.new("sweep"), org=org)
            command: Command = (
                ReembedPassages(archive_id=collection_id)
                if collection_id.startswith("archive")
                else ReembedChunks(folder_id=collection_id)
            )
            reply = await request_as_service(
                self.bus, command, context, seconds_max=BATCH_SECONDS_MAX
            )
            if not isinstance(reply, Accepted):
                raise Refused(reply.reason)
            if not reply.result.get("embedded"):
                return
