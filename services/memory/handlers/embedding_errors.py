"""Errors to clients about texts that were not embedded."""

from __future__ import annotations

from libs.contracts.bus_messages import UNAVAILABLE, UNPROCESSABLE, Rejected
from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.embeddings.ports import (
    Embedder,
    Embedders,
    EmbeddingFailed,
    EmbeddingRefused,
    EmbeddingUnavailable,
)

PROBE = "Does this model answer?"


def not_embedded(failed: EmbeddingFailed) -> Rejected:
    """The refusal: to come again where the model is away, else for good. Nothing was saved."""
    away = isinstance(failed, EmbeddingUnavailable)
    return Rejected(code=UNAVAILABLE if away else UNPROCESSABLE, reason=str(failed))


def embedder_of(
    embedders: Embedders, config: EmbeddingConfig | None, org: str
) -> Embedder | Rejected:
    """The embedder of a config, or the refusal of a model that there is not. No model is asked
    anything."""
    try:
        return embedders.for_config(config, org)
    except EmbeddingRefused as refused:
        return Rejected(code=UNPROCESSABLE, reason=f"`embedding`: {refused}")


async def answering(
    embedders: Embedders, config: EmbeddingConfig | None, org: str
) -> Embedder | Rejected:
    """The embedder of a config, which has just embedded a text; or why that cannot be."""
    try:
        embedder = embedders.for_config(config, org)
        await embedder.embed([PROBE])
    except EmbeddingFailed as failed:
        return not_embedded(failed)
    return embedder
