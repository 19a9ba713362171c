"""One agent answers for the group: the manager, as in groups of sleeptime agents."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    MISSING_MANAGER,
    Decision,
    Table,
    Wait,
    ask,
    end_of,
)


def manager_alone(table: Table) -> Decision:
    """Ask the manager one time for an answer."""
    if table.is_waiting:
        return Wait()
    if table.hops:
        return end_of(list(table.hops))
    if table.manager is None:
        return MISSING_MANAGER
    return ask(table.manager)
