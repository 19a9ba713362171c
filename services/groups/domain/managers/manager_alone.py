"""One agent answers for the group: the manager, as in groups of sleeptime agents."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    MISSING_MANAGER,
    Decision,
    GroupFacts,
    Wait,
    ask,
    end_of,
)


def manager_alone(facts: GroupFacts) -> Decision:
    """Ask the manager one time for an answer."""
    if facts.is_waiting:
        return Wait()
    if facts.hops:
        return end_of(list(facts.hops))
    if facts.manager is None:
        return MISSING_MANAGER
    return ask(facts.manager)
