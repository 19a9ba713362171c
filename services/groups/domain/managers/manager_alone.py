"""One agent answers for the group: the manager, as in groups of sleeptime agents."""

from __future__ import annotations

from services.groups.domain.managers.decisions import Decision, Fail, Table, Wait, ask, end_of


def manager_alone(table: Table) -> Decision:
    """Ask the manager one time for an answer."""
    if table.is_waiting:
        return Wait()
    if table.hops:
        return end_of(list(table.hops))
    if table.manager is None:
        return Fail("The agent `manager_agent_id` does not exist: set another one")
    return ask(table.manager)
