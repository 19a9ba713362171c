"""The model that comes with the server, as clients name it."""

from __future__ import annotations

from libs.contracts.letta.model_configs import EmbeddingConfig

HANDLE = "heeler/all-MiniLM-L6-v2"
# The free model of Letta's cloud, which old clients ask for by name: here it is the same one.
LETTA_FREE = "letta/letta-free"
DIMENSIONS = 384


def bundled_models() -> dict[str, EmbeddingConfig]:
    """The configs of the embedded model, by the handles that mean it."""
    return {handle: bundled_config(handle) for handle in (HANDLE, LETTA_FREE)}


def bundled_config(handle: str) -> EmbeddingConfig:
    """Its config under one of its handles; its endpoint is this server."""
    return EmbeddingConfig(
        embedding_endpoint_type="hugging-face",
        embedding_endpoint=None,
        embedding_model=handle.partition("/")[2],
        embedding_dim=DIMENSIONS,
        handle=handle,
    )
