"""Pages of templates and of their versions, which V1 counts by an offset."""

from __future__ import annotations

from services.api.adapters.resource_query_builder import Filter
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest
from services.api.v1.template_names import TEMPLATES


async def answer_list(
    request: AnyRequest,
    field: str,
    document: str,
    found: Filter,
    order: str,
    part: tuple[int, int],
    *,
    counted: bool = False,
) -> bytes:
    """A page as JSON: its items in a field, whether there is a next one, and, if they are counted,
    how many there are at all."""
    offset, limit = part
    count = f", 'total_count', (select count(*) from {TEMPLATES.view} v where {found.sql})"
    page = await api_of(request).reads.database.fetch_text(
        f"select json_build_object('{field}', coalesce(json_agg(p.document order by p.number)"
        " filter (where p.number <= %(limit)s), '[]'), 'has_next_page', count(*) > %(limit)s"
        f"{count if counted else ''})::text from (select x.document, row_number() over () as number"
        f" from (select {document} as document from {TEMPLATES.view} v where {found.sql}"
        f" order by {order} offset %(offset)s limit %(limit)s + 1) x) p",
        {**found.values, "offset": offset, "limit": limit},
    )
    assert page is not None, "an aggregate is always a row"
    return page
