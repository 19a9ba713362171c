"""One example of each message about imports."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.api.imports import (
    CancelImport,
    EntryError,
    ForgetImport,
    ImportAbandoned,
    ImportCancelled,
    ImportCompleted,
    ImportCounts,
    ImportDelayed,
    ImportedAgentTaken,
    ImportForgotten,
    ImportOptions,
    ImportProgressed,
    ImportRequested,
    ImportSource,
    ImportUndone,
    ImportValidated,
    RequestImport,
    imported_agent_id,
)
from libs.contracts.bus_messages import Command, Event
from tests.contract.identity_examples import AGENT

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
IMPORT = "import-42424242-4242-4242-8242-424242424242"
IMPORTED_AGENT = imported_agent_id("org-1", AGENT)
BLOCK = "block-22222222-2222-4222-8222-222222222222"
SEALED = "sealed:Zm9v"
FILE = ImportSource(form="heeler", file_name="ada.heeler.gz")
OPTIONS = ImportOptions(conflicts="replace", name="Ada", secrets={"KEY": SEALED}, passphrase=SEALED)
COUNTS = ImportCounts(lines=5, events=12)


def of_import[E: Event](kind: type[E], **fields: object) -> E:
    """An event of the import."""
    return kind.model_validate(
        {"originator_id": IMPORT, "originator_version": 1, "timestamp": AT, **fields}
    )


IMPORT_COMMANDS: list[Command] = [
    RequestImport(import_id=IMPORT, source=FILE, options=OPTIONS),
    CancelImport(import_id=IMPORT),
    ForgetImport(import_id=IMPORT),
]
IMPORT_EVENTS: list[Event] = [
    of_import(ImportRequested, source=FILE, options=OPTIONS, requested_by="user-1"),
    of_import(
        ImportValidated,
        counts=COUNTS,
        keeps_ids=True,
        agent_ids=[AGENT],
        replaced=[AGENT],
        cut=17,
        present=[BLOCK],
        left_out=[EntryError(entry="skills[0]", message="clients keep skills")],
    ),
    of_import(ImportProgressed, done=ImportCounts(lines=3, events=7)),
    of_import(ImportDelayed, attempts=1, reason="nobody answers"),
    of_import(
        ImportAbandoned,
        errors=[EntryError(entry="line 4", message="it is no line")],
        undoes=True,
        is_conflict=True,
    ),
    of_import(ImportCancelled, undoes=True),
    of_import(ImportUndone, status="failed"),
    of_import(ImportCompleted, agent_ids=[AGENT]),
    of_import(ImportForgotten),
    of_import(ImportedAgentTaken, originator_id=IMPORTED_AGENT, agent_id=AGENT, import_id=IMPORT),
]
SUBJECTS = {
    "RequestImport": f"api.command.import.request.org-1.{IMPORT}",
    "ImportedAgentTaken": f"api.event.imported_agent.taken.org-1.{IMPORTED_AGENT}",
    "ForgetImport": f"api.command.import.forget.org-1.{IMPORT}",
    "CancelImport": f"api.command.import.cancel.org-1.{IMPORT}",
    **{
        f"Import{verb}": f"api.event.import.{topic}.org-1.{IMPORT}"
        for verb, topic in {
            "Requested": "requested",
            "Validated": "validated",
            "Progressed": "progressed",
            "Delayed": "delayed",
            "Abandoned": "abandoned",
            "Cancelled": "cancelled",
            "Undone": "undone",
            "Completed": "completed",
            "Forgotten": "forgotten",
        }.items()
    },
}
