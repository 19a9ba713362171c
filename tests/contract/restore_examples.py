"""One example of each message about restores of agents."""

from __future__ import annotations

from datetime import UTC, datetime

from libs.contracts.api.restores import (
    RequestRestore,
    RestoreCompleted,
    RestoreDelayed,
    RestoreRefused,
    RestoreRequested,
    RestoreUndone,
    restores_id,
)
from libs.contracts.bus_messages import Command, Event
from tests.contract.identity_examples import AGENT

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RESTORE = "restore-45454545-4545-4545-8545-454545454545"
RESTORES = restores_id(AGENT)


def of_restore[E: Event](kind: type[E], **fields: object) -> E:
    """An event of the restore."""
    stored = {"originator_id": RESTORES, "originator_version": 1, "timestamp": AT}
    return kind.model_validate({**stored, "restore_id": RESTORE, **fields})


RESTORE_COMMANDS: list[Command] = [
    RequestRestore(
        restore_id=RESTORE,
        agent_id=AGENT,
        moment=f"{AGENT}.3",
        cut=1234,
        cut_at=AT,
        what=["blocks", "context"],
    ),
]
RESTORE_EVENTS: list[Event] = [
    of_restore(
        RestoreRequested,
        agent_id=AGENT,
        moment=f"{AGENT}.3",
        cut=1234,
        cut_at=AT,
        what=["blocks", "context"],
        requested_by="user-1",
    ),
    of_restore(RestoreDelayed, attempts=1, reason="nobody answers"),
    of_restore(RestoreRefused, code="conflict", reason="a label is taken", undoes=True),
    of_restore(RestoreUndone),
    of_restore(RestoreCompleted),
]
SUBJECTS = {
    "RequestRestore": f"api.command.agent_restore.request.org-1.{RESTORES}",
    **{
        f"Restore{verb}": f"api.event.agent_restore.{verb.lower()}.org-1.{RESTORE}"
        for verb in ("Requested", "Delayed", "Refused", "Undone", "Completed")
    },
}
