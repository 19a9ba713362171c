"""Port to embedders, and the choice of one by a config."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from libs.contracts.letta.model_configs import EmbeddingConfig

type Vector = Sequence[float]

# What one call of `embed` may be given. Whoever has more calls again: so each call ends.
TEXTS_MAX = 1_000


class EmbeddingFailed(Exception):
    """There are no vectors; the words say why, and what to do about it."""


class EmbeddingUnavailable(EmbeddingFailed):
    """The model does not answer now; later it may."""


class EmbeddingRefused(EmbeddingFailed):
    """These texts, or this config, will never be embedded."""


class Embedder(Protocol):
    """One embedding model."""

    @property
    def model(self) -> str:
        """The handle, which names what vectors may be compared with: only those of the same."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of unit length for each of at most `TEXTS_MAX` texts, in their order. Blocks no
        event loop and may be called many times at once. Raises EmbeddingFailed."""


class Embedders(Protocol):
    """The one place that knows which model embeds what."""

    def for_config(
        self, config: EmbeddingConfig | None, org: str, *, background: bool = False
    ) -> Embedder:
        """Return the embedder of a config, or the server's default if there is none. Organisations
        share its places fairly. Texts for which a client waits go before those that are embedded in
        the `background`. Loads no model and sends nothing. Raises EmbeddingRefused for a config
        that names no model."""
