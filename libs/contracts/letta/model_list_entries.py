"""The entries of `/v1/models/` and `/v1/models/embedding`."""

from libs.contracts.letta import JsonObject
from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig


def model_entry(config: LLMConfig) -> JsonObject:
    """A language model as clients choose it; pass the catalogue's config of its handle."""
    deprecated = config.model_dump(mode="json", exclude={"display_name", "provider_name", "handle"})
    return {
        "handle": config.handle,
        "name": config.model,
        "display_name": config.display_name or config.model,
        "provider_type": config.model_endpoint_type,
        "provider_name": config.provider_name or config.model_endpoint_type,
        "model_type": "llm",
        **deprecated,
        "max_context_window": config.context_window,
    }


def embedding_entry(config: EmbeddingConfig) -> JsonObject:
    """An embedding model as clients choose it."""
    return {
        "handle": config.handle,
        "name": config.embedding_model,
        "display_name": config.embedding_model,
        "provider_type": config.embedding_endpoint_type,
        "provider_name": config.embedding_endpoint_type,
        "model_type": "embedding",
        **config.model_dump(mode="json", exclude={"handle"}),
    }
