"""Which models of an Ollama embed, as it says itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic_core import from_json

from libs.contracts.bus_messages import JsonObject
from services.agent.adapters.models.ollama_embedding_models import MODELS_MAX, OllamaEmbeddingModels
from services.agent.adapters.models.ports import ProviderUnreachable
from services.agent.adapters.models.transport import Lost, Refused

NOMIC = {"capabilities": ["embedding"], "model_info": {"nomic-bert.embedding_length": 768}}
LLAMA = {
    "capabilities": ["completion", "tools"],
    "model_info": {"llama.embedding_length": 4_096},
}
OLD = {"model_info": {"bert.block_count": 6, "bert.embedding_length": 384}}


class Ollama:
    """An Ollama, as far as its lists go."""

    def __init__(self, **models: Any) -> None:
        self.models = models
        self.listed: Any = {"models": [{"name": name, "digest": "1"} for name in models]}
        self.problem: Exception | None = None
        self.asked: list[str] = []

    async def get(self, path: str, parameters: JsonObject) -> bytes:
        assert path == "/api/tags"
        if self.problem:
            raise self.problem
        return self.listed if isinstance(self.listed, bytes) else json.dumps(self.listed).encode()

    async def post(self, path: str, content: bytes) -> bytes:
        assert path == "/api/show"
        name = from_json(content)["model"]
        self.asked.append(name)
        shown = self.models[name]
        if isinstance(shown, Exception):
            raise shown
        return json.dumps(shown).encode()

    async def close(self) -> None:
        self.listed = None


def lister(ollama: Ollama) -> OllamaEmbeddingModels:
    return OllamaEmbeddingModels("http://localhost:11434/v1", ollama)  # type: ignore[arg-type]


async def test_the_models_that_embed_are_listed_with_the_length_of_their_vectors() -> None:
    ollama = Ollama(**{
        "nomic-embed-text:latest": NOMIC,
        "llama3:8b": LLAMA,
        "all-embed:22m": OLD,
        "odd": [],
        "gone": Refused(404, {}, "not found"),
    })  # fmt: skip
    known = lister(ollama)
    llms, found = await known.models()
    assert llms == []
    assert [(config.handle, config.embedding_dim) for config in found] == [
        ("ollama/all-embed:22m", 384),
        ("ollama/nomic-embed-text", 768),
    ]
    assert {(config.embedding_endpoint_type, config.embedding_endpoint) for config in found} == {
        ("ollama", "http://localhost:11434/v1")
    }
    ollama.asked.clear()
    assert (await known.models())[1] == found
    assert ollama.asked == ["gone"], "what is known is not asked for again"


@pytest.mark.parametrize(
    "listed",
    [b"no json", b"[]", b"{}", b'{"models": [5, {"name": 5}, {"name": ""}, {"name": "a\\u0000"}]}'],
    ids=["text", "list", "empty", "names"],
)
async def test_a_list_that_is_none_has_no_models(listed: bytes) -> None:
    ollama = Ollama()
    ollama.listed = listed
    if listed == b"no json":
        with pytest.raises(ProviderUnreachable):
            await lister(ollama).models()
    else:
        assert await lister(ollama).models() == ([], [])


async def test_a_server_that_is_away_is_unreachable_and_a_long_list_is_cut() -> None:
    ollama = Ollama(**{f"embed-{n:03}": NOMIC for n in range(MODELS_MAX + 5)})
    assert len((await lister(ollama).models())[1]) == MODELS_MAX
    ollama.problem = Lost(ConnectionError("refused"))
    with pytest.raises(ProviderUnreachable):
        await lister(ollama).models()
