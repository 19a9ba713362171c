"""The members speak one after the other, in the order of the group."""

from __future__ import annotations

from services.groups.domain.managers.decisions import Decision, Table, Wait, ask, end_of


def round_robin(table: Table) -> Decision:
    """Ask the next member, until as many have answered as may: one round, or `max_turns`."""
    if table.is_waiting:
        return Wait()
    answers = table.answers
    speaker = table.next_in_rotation()
    if speaker is None or len(answers) >= answers_max(table):
        return end_of(list(table.hops))
    return ask(speaker)


def answers_max(table: Table) -> int:
    """How many answers a message gets: one of each member, or `max_turns`, within the hop limit of
    the group where that is more than one round."""
    everybody = len(table.members)
    return min(table.config.max_turns or everybody, max(table.config.hops_max, everybody))
