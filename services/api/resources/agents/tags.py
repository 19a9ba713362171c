"""The tags of agents and blocks."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.letta.request_size_limits import SearchText
from services.api.adapters.agents.tag_queries import TagSlice
from services.api.http.callers import org_of
from services.api.http.handler_dependencies import api_of
from services.api.http.raw_json import raw
from services.api.http.request_parsing import PAGE_ITEMS_MAX, AnyRequest, Page, query_of
from services.api.openapi.operation import get


class TagPage(Page):
    """A page of tags; the cursors are tags."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 50
    order: Literal["asc", "desc"] = "asc"
    order_by: Literal["name"] = "name"
    name: SearchText | None = None
    query_text: SearchText | None = None


@get("/v1/tags", "tags", query=TagPage)
async def list_tags(request: AnyRequest) -> Response[bytes]:
    """List the tags that agents or blocks have, in the order of their characters."""
    page = query_of(request, TagPage)
    text = page.name or page.query_text
    part = TagSlice(org_of(request), text, page.after, page.before, page.limit, page.order)
    return raw(await api_of(request).tags.tags(part))
