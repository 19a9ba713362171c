"""Refusals that several aggregates share, and the words for a value that has the wrong form."""

from __future__ import annotations

from pydantic import ValidationError

from libs.contracts.bus_messages import NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.letta import error_bodies


def refuse(reason: str) -> Rejected:
    """The refusal of what a request says; the reason names the field."""
    return Rejected(code=UNPROCESSABLE, reason=reason)


def missing(kind: str, thing_id: str) -> Rejected:
    """The refusal for something that is not there."""
    return Rejected(code=NOT_FOUND, reason=str(error_bodies.not_found(kind, thing_id)["detail"]))


def no_room(things: str, count: int, most: int) -> Rejected | None:
    """The refusal of one thing too many for an organisation; None where there is room."""
    if count < most:
        return None
    return refuse(f"There are {count} {things}, and at most {most}: delete some first")


def first_error(invalid: ValidationError) -> str:
    """The first thing that is wrong, and where, without the value: it may be a secret."""
    error = invalid.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"`{'.'.join(map(str, error['loc']))}`: {error['msg']}"
