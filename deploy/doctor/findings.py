"""Finding of a check: well, or a problem and its remedy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The gravity of a finding. A warning needs no action at once; a problem stops something."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    SKIPPED = "skipped"  # it could not be looked at, for a reason that is no fault


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. The fix is a command, which may set or unset a variable; what it
    cannot know stands in it as `<words>`."""

    state: State
    message: str
    fix: str = ""


def ok(message: str) -> Finding:
    """All is well with this."""
    return Finding(State.OK, message)


def warning(message: str, fix: str) -> Finding:
    """This works, and may stop working, or was not meant so."""
    return Finding(State.WARNING, message, fix)


def problem(message: str, fix: str) -> Finding:
    """Something does not work because of this."""
    return Finding(State.PROBLEM, message, fix)


def skip(reason: str) -> Finding:
    """This could not be looked at."""
    return Finding(State.SKIPPED, reason)
