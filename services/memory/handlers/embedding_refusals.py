"""What a client is told of a text that was not embedded."""

from __future__ import annotations

from libs.contracts.bus_messages import UNAVAILABLE, UNPROCESSABLE, Rejected
from libs.embeddings.ports import EmbeddingFailed, EmbeddingUnavailable


def not_embedded(failed: EmbeddingFailed) -> Rejected:
    """The refusal: to come again where the model is away, else for good. Nothing was saved."""
    away = isinstance(failed, EmbeddingUnavailable)
    return Rejected(code=UNAVAILABLE if away else UNPROCESSABLE, reason=str(failed))
