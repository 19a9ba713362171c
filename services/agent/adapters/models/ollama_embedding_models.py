"""The models of an Ollama that embed texts, which the memory service asks."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from pydantic_core import to_json

from libs.contracts.letta.model_configs import EmbeddingConfig, LLMConfig
from services.agent.adapters.models.ports import NAME_CHARS_MAX, ProviderUnreachable
from services.agent.adapters.models.transport import Lost, Refused, TooLong, Wire
from services.agent.domain.agents.model_config_resolution import embedding_config

MODELS_MAX = 100
LISTING_SECONDS_MAX = 5.0
EMBEDS = "embedding"


class OllamaEmbeddingModels:
    """Keeps the contract of `ModelLister`. `base_url` is where texts are embedded, `wire` leads to
    the server itself, whose own interface says which models embed and how long their vectors
    are."""

    name = "ollama"

    def __init__(self, base_url: str, wire: Wire) -> None:
        self.base_url = base_url
        self.wire = wire
        # What each model is, by what it is made of: that is asked once.
        self.dimensions: dict[str, int | None] = {}

    async def models(self) -> tuple[list[LLMConfig], list[EmbeddingConfig]]:
        """No language models, and those that embed. Raises ProviderUnreachable."""
        try:
            async with asyncio.timeout(LISTING_SECONDS_MAX):
                listed = json.loads(await self.wire.get("/api/tags", {}))
                found = [await self.embedding(entry) for entry in entries_of(listed)]
        except (Refused, Lost, TooLong, TimeoutError, ValueError, RecursionError) as problem:
            raise ProviderUnreachable(f"{self.base_url}: {problem!r}") from None
        return [], [config for config in found if config]

    async def embedding(self, entry: dict[str, Any]) -> EmbeddingConfig | None:
        """The config of a model, if it embeds."""
        name, key = entry["name"], f"{entry['name']} {entry.get('digest')}"
        if key not in self.dimensions:
            try:
                shown = json.loads(await self.wire.post("/api/show", to_json({"model": name})))
            except Refused:  # it was removed just now, or is broken: the others are there
                return None
            self.dimensions[key] = vector_length(name, shown)
        dimensions = self.dimensions[key]
        if dimensions is None:
            return None
        return embedding_config(
            f"{self.name}/{name.removesuffix(':latest')}",
            endpoint_type=self.name,
            endpoint=self.base_url,
            dimensions=dimensions,
        )

    async def close(self) -> None:
        """Close the connections of the wire."""
        await self.wire.close()


def entries_of(listed: Any) -> list[dict[str, Any]]:
    """The models of a list that have a name."""
    entries = listed.get("models") if isinstance(listed, dict) else None
    named = [
        entry
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    ]
    fit = [entry for entry in named if 0 < len(entry["name"]) <= NAME_CHARS_MAX]
    return sorted((entry for entry in fit if entry["name"].isprintable()), key=name_of)[:MODELS_MAX]


def name_of(entry: dict[str, Any]) -> str:
    """The name of a model of a list."""
    return str(entry["name"])


def vector_length(name: str, shown: Any) -> int | None:
    """The length of a model's vectors, if it embeds. An Ollama that is older than its list of
    `capabilities` tells it by the name."""
    facts = shown if isinstance(shown, dict) else {}
    abilities = facts.get("capabilities")
    embeds = EMBEDS in abilities if isinstance(abilities, list) else "embed" in name
    info = facts.get("model_info")
    if not embeds or not isinstance(info, dict):
        return None
    lengths = [value for key, value in info.items() if str(key).endswith(".embedding_length")]
    return next((length for length in lengths if isinstance(length, int) and length > 0), None)
