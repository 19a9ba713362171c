"""Embed the messages that somebody searches: never when they are written, so that who does not
search pays nothing.

A search has what is new embedded before it is answered, as far as that is quick; of a long history
the rest is put off, durably, and done in the background, the newest messages first, a batch of each
organisation in turn. A message that is embedded twice, by two processes, has one vector.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from libs.bus.ports import Clock
from libs.embeddings.ports import (
    Embedders,
    EmbeddingFailed,
    EmbeddingRefused,
    EmbeddingUnavailable,
)
from services.memory.adapters.message_vectors import Backlog, MessageScope, MessageVectors

log = logging.getLogger(__name__)

# Before a search is answered at most so much is embedded, and nothing more is begun after so long.
TEXTS_OF_A_SEARCH_MAX = 64
SECONDS_OF_A_SEARCH_MAX = 1.0
BATCH_TEXTS = 16
ROUNDS_OF_A_SWEEP_MAX = 32
REMOVALS_OF_A_SWEEP_MAX = 20
# A batch that was begun before a conversation was deleted has been kept by then.
SETTLED_SECONDS = 120.0


@dataclass(slots=True, kw_only=True)
class MessageEmbedding:
    """The embedder of messages in this process; in the background only where it `leads`."""

    vectors: MessageVectors
    embedders: Embedders
    clock: Clock
    leads: Callable[[], bool]

    async def catch_up(self, scope: MessageScope) -> None:
        """Embed what is new in a history, and put off what would take long, or cannot be now."""
        until = self.clock.monotonic() + SECONDS_OF_A_SEARCH_MAX
        for _ in range(TEXTS_OF_A_SEARCH_MAX // BATCH_TEXTS):
            try:
                if await self.embed_newest(scope) < BATCH_TEXTS:
                    return
            except EmbeddingFailed as failed:
                log.info("messages are embedded later: %s", failed)
                break
            if self.clock.monotonic() > until:
                break
        await self.vectors.put_off(scope)

    async def embed_newest(self, scope: MessageScope, *, background: bool = False) -> int:
        """Embed the newest messages of a history that are not; returns how many."""
        embedder = self.embedders.for_config(None, scope.org, background=background)
        wanted = await self.vectors.unembedded_messages(scope, embedder.model, BATCH_TEXTS)
        if wanted:
            vectors = await embedder.embed([text for _, text in wanted])
            ids = [message_id for message_id, _ in wanted]
            kept = dict(zip(ids, vectors, strict=True))
            await self.vectors.keep(scope, embedder.model, kept)
        return len(wanted)

    async def sweep(self) -> None:
        """Go on with what was put off, and remove what is left of deleted conversations."""
        if not self.leads():
            return
        for _ in range(REMOVALS_OF_A_SWEEP_MAX):
            if not await self.vectors.remove_forgotten(SETTLED_SECONDS):
                break
        for _ in range(ROUNDS_OF_A_SWEEP_MAX):
            waiting = await self.vectors.backlog()
            if not waiting:
                return
            for history in waiting:
                if not await self.embed_batch(history):
                    return

    async def embed_batch(self, history: Backlog) -> bool:
        """Embed a batch of a history that waits; whether the model answered."""
        try:
            done = await self.embed_newest(history.scope, background=True) < BATCH_TEXTS
        except EmbeddingUnavailable as away:
            log.warning("messages wait to be embedded: %s", away)
            await self.vectors.worked_on(history, done=False)
            return False
        except EmbeddingRefused as refused:
            log.warning("messages are not embedded: %s", refused)
            done = True
        await self.vectors.worked_on(history, done=done)
        return True
