"""Requests that ask for an agent as it was: `?at=`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from libs.contracts.letta import error_bodies
from libs.contracts.letta.request_size_limits import Name
from libs.eventstore.as_of_reads import reading_as_of
from services.api.adapters.agents.past_reads import (
    FORMS,
    Cut,
    MomentUnavailable,
    NoSuchMoment,
    NotAMoment,
)
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem, refusal_problem
from services.api.http.handler_dependencies import api_of
from services.api.http.request_parsing import AnyRequest, Query, context_of, valid_id


class AsOf(Query):
    """At which moment: an event of the agent (`<aggregate>.<version>`) or a time; left out it is
    now."""

    at: Name | None = None


@asynccontextmanager
async def seen_at(request: AnyRequest, agent_id: str, at: str | None) -> AsyncIterator[None]:
    """Answer what is inside as it would have been answered at a moment; without one, as now. Raises
    the problem that says what is wrong with `at`."""
    if at is None:
        yield
        return
    cut = await resolve(request, agent_id, at)
    async with as_of(request, cut):
        yield


async def resolve(request: AnyRequest, agent_id: str, at: str, *, field: str = "at") -> Cut:
    """The moment that a client names in a field. Raises the 422 that says what is wrong with it,
    the 404 of what is not the agent's, and the 503 of what cannot be said now."""
    valid_id("agent", agent_id)
    try:
        return await api_of(request).past.resolve(org_of(request), agent_id, at)
    except NotAMoment:
        detail = f"`{field}` is '{at[:100]}', which is no moment: use {FORMS}"
        raise Problem(422, {"detail": detail}) from None
    except NoSuchMoment:
        detail = (
            f"Agent {agent_id} has no event '{at}', or did not exist then: `{field}` is the id of"
            " one of its own events, or a time from its creation on"
        )
        raise Problem(404, {"detail": detail}) from None
    except MomentUnavailable as unavailable:
        raise refusal_problem(unavailable.refusal) from None


@asynccontextmanager
async def as_of(request: AnyRequest, cut: Cut) -> AsyncIterator[None]:
    """Have all queries inside be answered as right after a commit. Raises the 404 where the agent
    was not there then, and the 503 where that cannot be said now."""
    past = api_of(request).past
    try:
        moments = await past.moments(cut, context_of(request, past.ids.new("moment")))
    except NoSuchMoment:
        raise Problem(404, error_bodies.not_found("agent", cut.agent_id)) from None
    except MomentUnavailable as unavailable:
        raise refusal_problem(unavailable.refusal) from None
    with reading_as_of(moments):
        yield
