"""Background jobs: what V1 loads files and answers batches in. Runs are no jobs, there or here."""

from __future__ import annotations

from typing import Annotated, Literal

from litestar import Response
from pydantic import Field

from libs.contracts.letta.request_size_limits import Name
from services.api.adapters.resource_query_builder import slice_of_items
from services.api.http.raw_json import raw
from services.api.http.request_parsing import PAGE_ITEMS_MAX, AnyRequest, Page, query_of, valid_id
from services.api.openapi.operation import delete, get, patch
from services.api.v1.read_model_responses import missing, slice_of


class JobPage(Page):
    """A page of jobs."""

    limit: Annotated[int | None, Field(ge=0, le=PAGE_ITEMS_MAX)] = 100
    order_by: Literal["created_at"] = "created_at"
    source_id: Name | None = None
    active: bool = False
    ascending: bool = True


@get("/v1/jobs", "jobs", query=JobPage)
async def list_jobs(request: AnyRequest) -> Response[bytes]:
    """List the jobs: there are none, since nothing that this server does is one."""
    return none_of(query_of(request, JobPage))


@get("/v1/jobs/active", "jobs", query=JobPage)
async def list_active_jobs(request: AnyRequest) -> Response[bytes]:
    """List the jobs that have not ended: there are none."""
    return none_of(query_of(request, JobPage))


@get("/v1/jobs/{job_id:str}", "job")
async def retrieve_job(job_id: str) -> None:
    """Say that there is no such job."""
    raise missing("job", valid_id("job", job_id))


@patch("/v1/jobs/{job_id:str}/cancel", "job")
async def cancel_job(job_id: str) -> None:
    """Say that there is no such job; runs are cancelled by `messages/cancel` of their agent."""
    raise missing("job", valid_id("job", job_id))


@delete("/v1/jobs/{job_id:str}", "job")
async def delete_job(job_id: str) -> None:
    """Say that there is no such job."""
    raise missing("job", valid_id("job", job_id))


def none_of(page: Page) -> Response[bytes]:
    """A page of nothing. Raises UnknownCursor for a cursor, which cannot be of this list."""
    assert not slice_of_items([], slice_of(page))
    return raw(b"[]")
