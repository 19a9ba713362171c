"""A model picks the one member that fits a message best."""

from __future__ import annotations

from services.groups.domain.managers.decisions import (
    AskModel,
    Decision,
    Pick,
    Table,
    Wait,
    ask,
    end_of,
)


def intelligent(table: Table) -> Decision:
    """Have a model pick a member and ask that one; the next in rotation where it is gone."""
    if table.is_waiting:
        return Wait()
    picked = next((each for each in table.present if each.agent_id == table.picked), None)
    if picked is not None:
        return ask(picked)
    if table.answers or not table.present:
        return end_of(list(table.hops))
    if len(table.present) == 1:
        return Pick(table.present[0].agent_id, "rotation")
    fallback = table.next_in_rotation()
    if table.hops and fallback is not None:
        return Pick(fallback.agent_id, "rotation")
    return AskModel()
