"""Histories from outside: events that happened elsewhere, or to another agent, and that a service
appends to its log as they are. Imports, forks and migrations come this way."""

from __future__ import annotations

import re
from datetime import datetime

from pydantic import Field

from libs.contracts.bus_messages import COMMANDS, Command, JsonObject, Value
from libs.contracts.per_service_commands import command_of_each_service

SERVICES_WITH_HISTORIES = ("memory", "agent")

# Of the events of one command as JSON; one that is larger than that goes alone. Nobody else is
# answered while a command is read and while its commit is written down: with so much in it that
# takes some milliseconds each.
APPENDED_BYTES_MAX = 256 << 10
APPENDED_EVENTS_MAX = 100

# An id from outside is a token of subjects: a space, a dot or a star in it would stop the relay.
FIT_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")

APPEND = "histories.append"
UNDO = "appended_histories.undo"


class PastEvent(Value):
    """An event as it stands in a log, without its aggregate and version."""

    topic: str
    schema_version: int = 1
    payload: JsonObject
    occurred_at: datetime


class PastHistory(Value):
    """Events of one aggregate in order. The first of them has the version `first_version`. Where it
    is not `complete`, more follow in other commands."""

    aggregate_id: str
    first_version: int = 1
    complete: bool = True
    events: tuple[PastEvent, ...]


class AppendHistories(Command):
    """Append events to aggregates of an import: all of them, or none.

    An aggregate is a new one, or one that the same import began. Only an import that `continues`
    may go on where another one, or this server itself, has stopped. Answered with the number of
    events appended; those that are there already are not appended again.
    """

    import_id: str
    histories: tuple[PastHistory, ...] = Field(min_length=1)
    continues: bool = False

    @property
    def target(self) -> str:
        return self.import_id


class UndoAppendedHistories(Command):
    """Delete the next aggregates that an import began, by the events that delete such aggregates.
    Answered with the id to go on `after`, which is empty when all are deleted."""

    import_id: str
    after: str = ""

    @property
    def target(self) -> str:
        return self.import_id


command_of_each_service(
    AppendHistories,
    "AppendHistoriesTo{Service}",
    APPEND,
    "Append events of the past to aggregates of the {service} service.",
    SERVICES_WITH_HISTORIES,
)
command_of_each_service(
    UndoAppendedHistories,
    "UndoHistoriesAppendedTo{Service}",
    UNDO,
    "Delete aggregates of the {service} service that an import began and gave up.",
    SERVICES_WITH_HISTORIES,
)


def is_fit_id(name: str) -> bool:
    """Whether an id from outside can stand in a subject."""
    return FIT_ID.fullmatch(name) is not None


def append_command(service: str) -> type[AppendHistories]:
    """The command of a service that appends histories."""
    kind = COMMANDS[f"{service}.{APPEND}"]
    assert issubclass(kind, AppendHistories), f"{kind} appends nothing"
    return kind


def undo_command(service: str) -> type[UndoAppendedHistories]:
    """The command of a service that takes back what an import appended."""
    kind = COMMANDS[f"{service}.{UNDO}"]
    assert issubclass(kind, UndoAppendedHistories), f"{kind} takes nothing back"
    return kind
