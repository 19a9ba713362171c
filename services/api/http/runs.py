"""Runs, and the models that there are."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from litestar import Response, get
from pydantic import Field

from libs.contracts.letta.limits import Name, Names
from services.api.adapters.reads import Filter
from services.api.http.described import described
from services.api.http.reading import PAGE_ITEMS_MAX, AnyRequest, Page, Query, query_of, valid_id
from services.api.http.shared import ORG, api_of, found, raw, slice_of

# Written out, as in the index of these runs: a plan that knows no values cannot use it otherwise.
ACTIVE = "v.status in ('created', 'running')"


class RunPage(Page):
    """A page of runs."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    order_by: Literal["created_at", "duration"] = "created_at"
    agent_id: Name | None = None
    agent_ids: Names | None = None
    conversation_id: Name | None = None
    statuses: Names | None = None
    background: bool | None = None
    stop_reason: Name | None = None
    active: bool = False


class ActiveRuns(Page):
    """A page of the runs that have not ended; without a limit the largest."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = PAGE_ITEMS_MAX
    agent_id: Name | None = None
    agent_ids: Names | None = None
    background: bool | None = None


class ModelFilter(Query):
    """Which models."""

    provider_category: Names | None = None
    provider_name: Name | None = None
    provider_type: Name | None = None


@get("/v1/runs", opt=described("runs", query=RunPage))
async def list_runs(request: AnyRequest) -> Response[bytes]:
    """List runs, the newest first."""
    return await runs(request, query_of(request, RunPage))


@get("/v1/runs/active", opt=described("runs", query=ActiveRuns))
async def list_active_runs(request: AnyRequest) -> Response[bytes]:
    """List the runs that have not ended, the newest first."""
    asked = query_of(request, ActiveRuns)
    return await runs(request, RunPage(**asked.model_dump(), active=True))


async def runs(request: AnyRequest, page: RunPage) -> Response[bytes]:
    """A page of runs."""
    filters = Filter(["v.org = %(org)s", *([ACTIVE] if page.active else [])], {"org": ORG})
    agents = [page.agent_id] if page.agent_id else page.agent_ids
    filters.add("v.agent_id = any(%(agents)s)", "agents", agents)
    filters.add("v.conversation_id = %(conversation)s", "conversation", page.conversation_id)
    filters.add("v.status = any(%(statuses)s)", "statuses", page.statuses)
    filters.add("v.background = %(background)s", "background", page.background)
    filters.add("v.stop_reason = %(stop)s", "stop", page.stop_reason)
    reads = api_of(request).reads
    part = slice_of(page)
    return raw(await reads.page("agent.run_view", "v.doc", filters, part, key=page.order_by))


@get("/v1/runs/{run_id:str}", opt=described("run"))
async def retrieve_run(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Retrieve a run."""
    document = await api_of(request).reads.run(ORG, valid_id("run", run_id))
    return found(document, "run", run_id)


@get("/v1/runs/{run_id:str}/usage", opt=described("usage"))
async def retrieve_usage(request: AnyRequest, run_id: str) -> Response[bytes]:
    """Retrieve the token usage of a run."""
    await retrieve_run.fn(request, run_id)
    row = await api_of(request).reads.run_end(run_id)
    usage = (row.usage if row else None) or {}
    body = {
        "completion_tokens": usage.get("completion_tokens", 0),
        "prompt_tokens": usage.get("prompt_tokens", 0),
        "total_tokens": usage.get("total_tokens", 0),
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }
    return raw(json.dumps(body).encode())


@get("/v1/models", opt=described("models", query=ModelFilter))
async def list_models(request: AnyRequest) -> Response[bytes]:
    """List the language models of the configured providers."""
    asked = query_of(request, ModelFilter)
    filters = Filter(["kind = 'llm'"])
    filters.add("doc->>'provider_category' = any(%(cat)s)", "cat", asked.provider_category)
    filters.add("doc->>'provider_name' = %(name)s", "name", asked.provider_name)
    filters.add("doc->>'provider_type' = %(type)s", "type", asked.provider_type)
    return await models(request, filters)


@get(["/v1/models/embedding", "/v1/models/embeddings"], opt=described("embedding models"))
async def list_embedding_models(request: AnyRequest) -> Response[bytes]:
    """List the embedding models of the configured providers."""
    return await models(request, Filter(["kind = 'embedding'"]))


async def models(request: AnyRequest, filters: Filter) -> Response[bytes]:
    """A list of models in the order of the providers."""
    document = await api_of(request).reads.one(
        "select coalesce(jsonb_agg(doc order by position), '[]')::text"
        f" from agent.model_view where {filters.sql}",
        filters.values,
    )
    assert document is not None
    return raw(document)
