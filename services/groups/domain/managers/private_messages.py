"""Private messages: each addressed member answers once, whatever the type of the group's manager,
since a manager that is not addressed must not see them."""

from __future__ import annotations

from services.groups.domain.managers.decisions import Decision, GroupFacts, Wait, ask, end_of


def private_messages(facts: GroupFacts) -> Decision:
    """Ask the addressed members one after the other; `members` are those alone."""
    if facts.is_waiting:
        return Wait()
    asked = {hop.agent_id for hop in facts.hops}
    left = [member for member in facts.members if member.agent_id not in asked]
    return ask(left[0]) if left else end_of(list(facts.hops))
