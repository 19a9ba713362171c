"""A model that needs none: what the simulator and the unit tests embed with."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.embeddings.ports import TEXTS_MAX, Embedder, Vector

MODEL = "heeler/words"
DIMENSIONS = 128
WORD = re.compile(r"\w+")


class HashEmbedder:
    """Keeps the contract of `Embedder`: the same text gives the same vector everywhere, and texts
    that share words are near. `calls` counts what it was asked for."""

    def __init__(self, model: str = MODEL, dimensions: int = DIMENSIONS) -> None:
        self.model = model
        self.dimensions = dimensions
        self.calls = 0
        self.texts = 0

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """A vector for each text."""
        assert len(texts) <= TEXTS_MAX, "whoever has more texts calls again"
        self.calls += 1
        self.texts += len(texts)
        return [word_vector(text, self.dimensions) for text in texts]


class OneEmbedder:
    """Keeps the contract of `Embedders`: one model for every config."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder or HashEmbedder()

    def for_config(
        self, config: EmbeddingConfig | None, org: str, *, background: bool = False
    ) -> Embedder:
        """The same embedder for every config."""
        return self.embedder


def word_vector(text: str, dimensions: int) -> Vector:
    """A vector of unit length to which every word adds along one axis, that of its hash."""
    axes = [0.0] * dimensions
    for word in WORD.findall(text.lower()) or [text]:
        digest = hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=4).digest()
        axes[int.from_bytes(digest) % dimensions] += 1.0
    length = math.sqrt(sum(number * number for number in axes))
    return [number / length for number in axes]
