"""The language of imports: agents that are made from a file, or from another agent as it was."""

from __future__ import annotations

from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, Value, is_none
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.request_size_limits import Name
from libs.contracts.sealed_text import Sealed

SERVICE = "api"

# Imports of an organisation that have not ended: of files, which are kept until then, and of agents
# that are here.
IMPORTS_OF_ORG_MAX = 8
FORKS_OF_ORG_MAX = 64
ERRORS_KEPT_MAX = 50
LEFT_OUT_KEPT_MAX = 1_000
ERROR_CHARS_MAX = 1_000
AGENTS_MAX = 20_000

# What becomes of ids that are there already: the import fails, what is there is deleted first, what
# is there is used as it is, or everything gets new ids. Without a policy the ids are kept where
# none of them is taken, and otherwise everything gets new ones.
# With `continue` the source has what came since an earlier import of the same things: what is there
# goes on with it.
type ConflictPolicy = Literal["fail", "replace", "merge", "copy", "continue"]
type ImportForm = Literal["heeler", "letta", "fork"]


class ImportOptions(Value):
    """A client's options of an import. The sender of the command seals the secrets and the
    passphrase that opens those of the file."""

    conflicts: ConflictPolicy | None = None
    name: Name | None = None
    append_copy_suffix: bool = False
    override_existing_tools: bool = True
    accept_tools: bool = False
    project_id: Name | None = None
    strip_messages: bool = False
    model: Name | None = None
    embedding: Name | None = None
    secrets: dict[str, Sealed] | None = None
    passphrase: Sealed | None = None


class ImportSource(Value):
    """Where the lines come from: a file that was uploaded under the id of the import, or the log of
    an agent up to a commit (`cut`) of all services. `request_hash` tells the request for a fork
    from others: a client that lost the answer asks for the same again."""

    form: ImportForm
    file_name: str = Field(default="", exclude_if=not_)
    agent_id: str = Field(default="", exclude_if=not_)
    cut: int | None = Field(default=None, exclude_if=is_none)
    request_hash: str = Field(default="", exclude_if=not_)


class EntryError(Value):
    """A problem with an entry of a file, and its fix."""

    entry: str
    message: str


class ImportCounts(Value):
    """The counts of lines in the source, and of events in them."""

    lines: int = 0
    events: int = 0


class ImportCommand(Command, service=SERVICE):
    """A command about one import."""

    import_id: str

    @property
    def target(self) -> str:
        return self.import_id


class RequestImport(ImportCommand, topic="import.request"):
    """Make agents from what a source has; refused where an organisation has too many imports that
    have not ended."""

    source: ImportSource
    options: ImportOptions


class CancelImport(ImportCommand, topic="import.cancel"):
    """Give an import up, and take back what it has made."""


class ForgetImport(ImportCommand, topic="import.forget"):
    """Forget an import that has ended: none of its agents is left."""


class ImportEvent(Event, service=SERVICE):
    """A fact about one import."""


class ImportRequested(ImportEvent, topic="import.requested"):
    """Agents are to be made from what a source has."""

    source: ImportSource
    options: ImportOptions
    requested_by: str


class ImportValidated(ImportEvent, topic="import.validated"):
    """A source was read to its end, and nothing is wrong with it.

    `keeps_ids` says whether its ids stay as they are; `replaced` are the agents that are deleted
    first, as they were at the commit `cut`, and `present` those ids that are used as they are.
    `left_out` are the entries that are
    not taken over, or not as they are in the source, and why."""

    counts: ImportCounts
    keeps_ids: bool
    agent_ids: list[str]
    replaced: list[str] = Field(default_factory=list, exclude_if=not_)
    cut: int | None = Field(default=None, exclude_if=is_none)
    present: list[str] = Field(default_factory=list, exclude_if=not_)
    left_out: list[EntryError] = Field(default_factory=list, exclude_if=not_)


class ImportProgressed(ImportEvent, topic="import.progressed"):
    """So much is transferred: of all lines up to this one nothing has to be sent again."""

    done: ImportCounts


class ImportDelayed(ImportEvent, topic="import.delayed"):
    """An attempt has failed for a reason that may pass; `attempts` is how many did in a row."""

    attempts: int
    reason: str


class ImportAbandoned(ImportEvent, topic="import.abandoned"):
    """An import cannot be completed: these are the reasons; of a conflict, that ids are there
    already.

    `undoes` says whether it may have made
    something, which is then taken back."""

    errors: list[EntryError]
    undoes: bool
    is_conflict: bool = Field(default=False, exclude_if=not_)


class ImportCancelled(ImportEvent, topic="import.cancelled"):
    """Nobody wants an import any more.

    `undoes` says whether it may have made something, which is
    then taken back."""

    undoes: bool


class ImportUndone(ImportEvent, topic="import.undone"):
    """Nothing is left of what an import had made: it has failed, or was cancelled."""

    status: Literal["failed", "cancelled"]


class ImportCompleted(ImportEvent, topic="import.completed"):
    """The agents of an import are there, without what their services refused (`left_out`)."""

    agent_ids: list[str]
    left_out: list[EntryError] = Field(default_factory=list, exclude_if=not_)


class ImportForgotten(ImportEvent, topic="import.forgotten"):
    """None of the agents of an import is left, and nobody is told of it any more."""


def imported_agent_id(org: str, agent_id: str) -> str:
    """The id of the aggregate that says which import makes an agent."""
    return derived_id("imported_agent", org, agent_id)


class ImportedAgentTaken(Event, service=SERVICE, topic="imported_agent.taken"):
    """An import makes an agent under the id that it has in its source; no other import does, as
    long as this one has not ended."""

    agent_id: str
    import_id: str
