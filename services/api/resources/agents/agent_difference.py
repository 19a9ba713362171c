"""Differences of an agent between two moments. None of it is in V1."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from litestar import Response
from pydantic import Field
from pydantic_core import from_json, to_json

from libs.contracts.letta.request_size_limits import Name
from libs.contracts.state_size_limits import size
from services.api.adapters.agents.agent_difference_queries import (
    LAST_ORDER,
    AgentDifferenceQueries,
)
from services.api.adapters.agents.past_reads import Cut
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import AnyRequest, Query, query_of
from services.api.openapi.operation import get
from services.api.resources.agents.agent_events import must_have_existed
from services.api.resources.agents.agents import AGENTS
from services.api.v1.agent_comparison import bounded_list, compared_documents
from services.api.v1.agent_documents import document_with
from services.api.v1.as_of import as_of, resolve
from services.api.v1.read_model_responses import document_of

COMPARED = document_with({"agent.blocks", "agent.tools", "agent.tags", "agent.sources"})


class TwoMoments(Query):
    """Which moments are compared: ids of events or times; `to` is now unless said otherwise."""

    from_: Annotated[Name, Field(alias="from")]
    to: Name | None = None


@dataclass(frozen=True, slots=True)
class AgentAtMoment:
    """An agent at a moment. `order` is its place in the order of commits."""

    order: int
    document: dict[str, Any]
    conversations: list[str]
    archives: list[str]


@get("/v1/agents/{agent_id:str}/diff", "difference", query=TwoMoments)
async def compare_agent(request: AnyRequest, agent_id: str) -> Response[bytes]:
    """Compare an agent at two moments: its configuration, its blocks line by line, its messages,
    tools and passages."""
    asked = query_of(request, TwoMoments)
    await must_have_existed(request, agent_id)
    start = await resolve(request, agent_id, asked.from_, field="from")
    end = await resolve(request, agent_id, asked.to, field="to") if asked.to else None
    if end is not None and end.commit_order < start.commit_order:
        detail = f"`from` ({asked.from_}) is later than `to` ({asked.to}): swap them"
        raise Problem(422, {"detail": detail})
    before = await seen_agent(request, agent_id, start)
    after = await seen_agent(request, agent_id, end)
    names = (asked.from_, asked.to or "now")
    documents = (before.document, after.document)
    parts = await api_of(request).text_works.comparisons.run(
        request, sum(map(size, documents)), compared_documents, *documents, names
    )
    shown = {
        "agent_id": agent_id,
        "from": asked.from_,
        "to": asked.to,
        **parts,
        "messages": await message_changes(request, before, after, start, end),
        "passages": await passage_changes(request, before, after, start, end),
    }
    return raw(to_json(shown))


@asynccontextmanager
async def at_moment(request: AnyRequest, cut: Cut | None) -> AsyncIterator[None]:
    """Have queries answered as of a moment, or of now."""
    if cut is None:
        yield
        return
    async with as_of(request, cut):
        yield


async def seen_agent(request: AnyRequest, agent_id: str, cut: Cut | None) -> AgentAtMoment:
    """An agent at a moment, or now. Raises Problem."""
    queries, org = AgentDifferenceQueries(api_of(request).reads.database), org_of(request)
    async with at_moment(request, cut):
        return AgentAtMoment(
            cut.commit_order if cut else LAST_ORDER,
            from_json(await document_of(request, AGENTS, agent_id, document=COMPARED)),
            await queries.conversations(org, agent_id),
            await queries.archives(org, agent_id),
        )


async def message_changes(
    request: AnyRequest, before: AgentAtMoment, after: AgentAtMoment, start: Cut, end: Cut | None
) -> dict[str, Any]:
    """Which messages came, and which went with their conversations."""
    queries, org = AgentDifferenceQueries(api_of(request).reads.database), org_of(request)
    async with at_moment(request, end):
        total_after = await queries.message_count(org, after.conversations)
        added = await queries.messages_after(org, after.conversations, before.order)
    gone = sorted(set(before.conversations) - set(after.conversations))
    async with at_moment(request, start):
        total_before = await queries.message_count(org, before.conversations)
        lost = await queries.message_count(org, gone) if gone else 0
        names = await queries.first_messages(org, gone) if gone else []
    return {
        "before": total_before,
        "after": total_after,
        "added": bounded_list(added.items, added.total),
        "removed": bounded_list(names, lost),
    }


async def passage_changes(
    request: AnyRequest, before: AgentAtMoment, after: AgentAtMoment, start: Cut, end: Cut | None
) -> dict[str, Any]:
    """Which passages came and went: with their archives, and in those that were there all along."""
    queries, org = AgentDifferenceQueries(api_of(request).reads.database), org_of(request)
    old, new = set(before.archives), set(after.archives)
    span = (sorted(old & new), before.order, after.order)
    added = await queries.changed_passages(org, *span, deleted=False)
    removed = await queries.changed_passages(org, *span, deleted=True)
    if new - old:
        async with at_moment(request, end):
            added = added.and_also(await queries.passages_of(org, sorted(new - old)))
    if old - new:
        async with at_moment(request, start):
            removed = removed.and_also(await queries.passages_of(org, sorted(old - new)))
    return {
        "added": bounded_list(added.items, added.total),
        "removed": bounded_list(removed.items, removed.total),
    }
