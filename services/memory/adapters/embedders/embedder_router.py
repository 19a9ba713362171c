"""Which model embeds what: the one place that reads handles and embedding configs."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from libs.contracts.letta.model_configs import EmbeddingConfig
from libs.egress.address_guard import AddressGuard, port_of
from libs.egress.failures import Forbidden
from libs.egress.outgoing_requests import Bounds
from libs.egress.provider_endpoints import KEY_FOR_KEYLESS, Endpoint
from libs.embeddings.bundled_model_config import DIMENSIONS, HANDLE, LETTA_FREE
from libs.embeddings.ports import Embedder, EmbeddingRefused
from services.memory.adapters.embedders.local_embedder import LocalEmbedder, OrganisationEmbedder
from services.memory.adapters.embedders.minilm import MiniLm
from services.memory.adapters.embedders.remote_embedder import (
    DIMENSIONS_MAX,
    REQUEST_TEXTS_MAX,
    EmbeddingEndpoint,
    RemoteEmbedder,
)
from services.memory.settings import EmbeddingSettings

if TYPE_CHECKING:
    from libs.egress.guarded_http_client import KeptHttp

EMBEDDED = (HANDLE, LETTA_FREE)
# Kinds of endpoints that a config may name by their address, since they speak as OpenAI does.
LIKE_OPENAI = ("openai", "ollama", "vllm", "lmstudio", "llamacpp", "together", "mistral")
ANSWER_BYTES_MAX = 16 << 20  # 64 vectors of 4,000 numbers as text
BOUNDS = Bounds(seconds=10.0, answer_bytes=ANSWER_BYTES_MAX, redirects=0)
# Endpoints that clients named, of which the ones that were used last are kept.
NAMED_ENDPOINTS_MAX = 64
# It stands in an index beside each vector, which has to fit.
MODEL_CHARS_MAX = 200


class EmbedderRouter:
    """Keeps the contract of `Embedders`: the embedded model, the operator's endpoints, and those
    that clients name, which are asked without any key of the operator."""

    def __init__(self, settings: EmbeddingSettings) -> None:
        self.settings = settings
        self.default = LocalEmbedder(HANDLE, DIMENSIONS, MiniLm)
        listed = settings.endpoints
        self.kept = {name: kept_http(trusting(listed[name])) for name in listed}
        self.endpoints = {name: EmbeddingEndpoint(listed[name], self.kept[name]) for name in listed}
        self.named: OrderedDict[str, EmbeddingEndpoint] = OrderedDict()

    def for_config(
        self, config: EmbeddingConfig | None, org: str, *, background: bool = False
    ) -> Embedder:
        """The embedder of a config, for one organisation. An endpoint has places of its own, which
        what is embedded in the background cannot fill."""
        if config is None or config.handle in EMBEDDED:
            return OrganisationEmbedder(self.default, org, background)
        if not 1 <= config.embedding_dim <= DIMENSIONS_MAX:
            raise EmbeddingRefused(
                f"`embedding_config.embedding_dim` must be from 1 to {DIMENSIONS_MAX}, and is"
                f" {config.embedding_dim}"
            )
        name = config.embedding_model
        model = config.handle or f"{config.embedding_endpoint_type}/{name}"
        if len(model) > MODEL_CHARS_MAX:
            raise EmbeddingRefused(
                f"the name of an embedding model has at most {MODEL_CHARS_MAX} characters, and this"
                f" has {len(model)}: `embedding_config.handle`, or the endpoint type and the model"
            )
        return RemoteEmbedder(
            self.endpoint_of(config),
            org=org,
            model=model,
            name=name,
            dimensions=config.embedding_dim,
            texts_at_once=config.batch_size or REQUEST_TEXTS_MAX,
        )

    def endpoint_of(self, config: EmbeddingConfig) -> EmbeddingEndpoint:
        """The endpoint for a config: the operator's one that its handle names; without a handle,
        the one at its address, or any that is there."""
        provider = (config.handle or "").partition("/")[0] or config.embedding_endpoint_type
        known = self.endpoints.get(provider)
        address = (config.embedding_endpoint or "").rstrip("/")
        if known and (config.handle or address in ("", known.endpoint.base_url)):
            return known
        if address and config.embedding_endpoint_type in LIKE_OPENAI:
            return self.named_endpoint(address)
        raise EmbeddingRefused(
            f"no provider is configured for the embedding model"
            f" {config.handle or config.embedding_model}: set OPENAI_API_KEY, OPENAI_BASE_URL or"
            f" OLLAMA_BASE_URL, or choose a model of `/v1/models/embedding`, such as {HANDLE}"
        )

    def named_endpoint(self, address: str) -> EmbeddingEndpoint:
        """The endpoint at an address that a client named. Raises EmbeddingRefused for one that may
        not be asked."""
        try:
            self.settings.guard.check_address(address)
        except Forbidden as forbidden:
            reason = f"`embedding_config.embedding_endpoint`: {forbidden}"
            raise EmbeddingRefused(reason) from forbidden
        found = self.named.pop(address, None)
        if found is None:
            from libs.egress.guarded_http_client import GuardedHttp  # slow to import

            http = GuardedHttp(self.settings.guard, BOUNDS)
            found = EmbeddingEndpoint(Endpoint(KEY_FOR_KEYLESS, address), http)
        self.named[address] = found
        if len(self.named) > NAMED_ENDPOINTS_MAX:
            self.named.popitem(last=False)
        return found

    async def aclose(self) -> None:
        """Close the clients of all embedders."""
        await self.default.aclose()
        for http in self.kept.values():
            await http.aclose()


def kept_http(guard: AddressGuard) -> KeptHttp:
    """The client of one endpoint, kept for many requests."""
    from libs.egress.guarded_http_client import KeptHttp  # slow to import

    return KeptHttp(guard, BOUNDS)


def trusting(endpoint: Endpoint) -> AddressGuard:
    """The guard of an endpoint of the operator, who may name a host of his own network."""
    url = urlsplit(endpoint.base_url)
    return AddressGuard(frozenset({f"{(url.hostname or '').lower()}:{port_of(url)}"}))
