"""Refusals of messages to groups, and of edits of their transcripts."""

from __future__ import annotations

from pydantic_core import to_json

from libs.contracts.bus_messages import BUSY, INVALID, NOT_FOUND, TOO_LARGE, Rejected
from libs.contracts.groups.group_runs import (
    GROUP_MESSAGES_MAX,
    GROUP_REQUEST_BYTES_MAX,
    GROUP_RUNS_WAITING_MAX,
    StartGroupRun,
)


def too_much(command: StartGroupRun) -> Rejected | None:
    """The refusal of a request that says nothing, or more than one may."""
    if not command.messages:
        return Rejected(code=INVALID, reason="`messages` must not be empty: send at least one")
    if len(command.messages) > GROUP_MESSAGES_MAX:
        reason = f"`messages`: at most {GROUP_MESSAGES_MAX}, here are {len(command.messages)}"
        return Rejected(code=INVALID, reason=reason)
    size = sum(len(to_json(message.content)) for message in command.messages)
    if size > GROUP_REQUEST_BYTES_MAX:
        reason = (
            f"`messages` are too long: {size} bytes of at most {GROUP_REQUEST_BYTES_MAX} in one"
            " request to a group. Send less, or put it into a block or a file"
        )
        return Rejected(code=TOO_LARGE, reason=reason)
    return None


def no_room(waiting: int) -> Rejected | None:
    """The refusal of one more run where as many wait as may."""
    if waiting < GROUP_RUNS_WAITING_MAX:
        return None
    what = f"{GROUP_RUNS_WAITING_MAX} messages wait for this group"
    return Rejected(code=BUSY, reason=f"{what}: try again later")


def no_such_message(message_id: str) -> Rejected:
    """The refusal of an edit of what is not in the transcript."""
    return Rejected(code=NOT_FOUND, reason=f"Message with ID {message_id} not found")
