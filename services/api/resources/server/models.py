"""The models of the configured providers, which belong to no organisation."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response

from libs.contracts.letta.request_size_limits import Name, Names
from services.api.adapters.resource_query_builder import Resource, Where, filter_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, query_of
from services.api.openapi.operation import get

MODELS = Resource(kind="model", view="agent.model_view", document="v.fields")


class ModelFilters(Query):
    """Which models."""

    provider_category: Annotated[
        Names | None, Where("v.fields->>'provider_category' = any({})")
    ] = None
    provider_name: Annotated[Name | None, Where("v.fields->>'provider_name' = {}")] = None
    provider_type: Annotated[Name | None, Where("v.fields->>'provider_type' = {}")] = None


@get("/v1/models", "models", query=ModelFilters)
async def list_models(request: AnyRequest) -> Response[bytes]:
    """List the language models of the configured providers."""
    return await models(request, "llm", query_of(request, ModelFilters))


@get(["/v1/models/embedding", "/v1/models/embeddings"], "embedding models")
async def list_embedding_models(request: AnyRequest) -> Response[bytes]:
    """List the embedding models of the configured providers."""
    return await models(request, "embedding", ModelFilters())


async def models(
    request: AnyRequest, kind: Literal["llm", "embedding"], asked: ModelFilters
) -> Response[bytes]:
    """The models of a kind, in the order of the providers: those that are listed only for who asks
    for their provider by its name are left out for others."""
    found = filter_of(asked, org=None).add("v.kind = %(kind)s", kind=kind)
    if asked.provider_name is None:
        found.add("v.listed")
    return raw(await api_of(request).reads.all(MODELS, found, order="v.position"))
