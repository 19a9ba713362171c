"""Policy for ids that are there already."""

from __future__ import annotations

from dataclasses import dataclass

from libs.contracts.api.import_errors import BadSource
from libs.contracts.api.imports import ConflictPolicy, EntryError

IN_THE_WAY = "it is there already: say `conflicts` `copy` for new ids, or delete it first"


@dataclass(frozen=True, slots=True)
class IdDecision:
    """Whether the ids of a source stay as they are, which agents are deleted first, and which
    things are used as they are there."""

    keeps_ids: bool
    replaced: tuple[str, ...] = ()
    present: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PresentThings:
    """Which things of a source there are: its agents; what is made of histories, so that it is an
    agent's own (blocks and conversations); and what agents use. `usable` are those that the same
    organisation has, and that another agent can be given."""

    agents: tuple[str, ...]
    own: frozenset[str]
    used: frozenset[str]
    usable: frozenset[str]


def decide_ids(policy: ConflictPolicy | None, present: PresentThings) -> IdDecision:
    """The decision about ids that are there. Raises BadSource where they are in the way."""
    elsewhere = present.used - present.usable
    taken = {*present.agents, *present.own, *elsewhere}
    if policy == "copy" or (policy is None and taken):
        return IdDecision(keeps_ids=False)
    replaced = present.agents if policy == "replace" else ()
    if policy == "merge":
        taken = {*present.agents, *((present.own | present.used) - present.usable)}
    elif policy == "replace":
        taken = {*((present.own | present.used) - present.usable)}
    if taken:
        raise BadSource(
            [EntryError(entry=thing_id, message=IN_THE_WAY) for thing_id in sorted(taken)],
            conflict=True,
        )
    return IdDecision(
        keeps_ids=True, replaced=replaced, present=frozenset(present.own | present.used)
    )
