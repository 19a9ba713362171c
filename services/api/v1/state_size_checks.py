"""Refuse what would become too large a state, before anything is sent."""

from __future__ import annotations

from libs.contracts.bus_messages import JsonObject
from libs.contracts.state_size_limits import oversize_agent, oversize_block, oversize_creation
from services.api.http.error_responses import Problem


def sized_creation(request: JsonObject) -> JsonObject:
    """The request to make an agent; raises the 422 that names what is too large in it."""
    return unless(oversize_creation(request), request)


def sized_agent(changes: JsonObject) -> JsonObject:
    """The changes of an agent; raises the 422 that names what is too large in them."""
    return unless(oversize_agent(changes), changes)


def sized_block(fields: JsonObject) -> JsonObject:
    """The fields of a block; raises the 422 that names what is too large in them."""
    return unless(oversize_block(fields), fields)


def unless(problem: str | None, wanted: JsonObject) -> JsonObject:
    """The wanted value, unless there is a problem with it."""
    if problem:
        raise Problem(422, {"detail": problem})
    return wanted
