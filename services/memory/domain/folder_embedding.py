"""How the files of a folder are embedded, from what is asked for."""

from __future__ import annotations

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.embeddings.bundled_model_config import bundled_config


def folder_config(
    wanted: EmbeddingConfig | None, chunk_size: int | None, model: str, dimensions: int
) -> EmbeddingConfig:
    """The config that a folder has: what is wanted, else that of the server's own model; with what
    is true of the model that embeds."""
    config = wanted or bundled_config(model)
    changes = {"embedding_dim": dimensions}
    if chunk_size is not None:
        changes["embedding_chunk_size"] = chunk_size
    return config.model_copy(update=changes)
