"""Planted bugs about groups: blocks that stay, writes that get lost, members that are gone."""

from __future__ import annotations

import itertools
from typing import Any

from libs.contracts.deterministic_ids import derived_id
from services.groups.domain.group import Group
from services.groups.handlers import block_sharing
from services.groups.policies.group_cleanup import AttachGroupBlocks, RemoveDeletedMembers
from tests.sim.mutants import Patch, mutant


@mutant("A sharing that is made again takes its own block for one that the agent had before.")
def shared_block_stays() -> list[Patch]:
    times = itertools.count()
    return [
        (block_sharing, "derived_id", lambda *parts: derived_id(*parts, str(next(times)))),
    ]


@mutant("Nobody takes deleted agents from their groups.")
def deleted_members_stay() -> list[Patch]:
    async def sweep(policy: Any) -> None:
        """Look for nothing."""

    return [(RemoveDeletedMembers, "sweep", sweep)]


@mutant("Blocks are shared by the request alone; what it leaves undone stays so.")
def sharing_is_not_repeated() -> list[Patch]:
    async def sweep(policy: Any) -> None:
        """Look for nothing."""

    return [(AttachGroupBlocks, "sweep", sweep)]


@mutant("A write replaces the shared state that others have written.")
def shared_state_is_replaced() -> list[Patch]:
    real = Group.write_state

    def write_state(group: Group, command: Any, *, at: Any) -> Any:
        group.state.shared_state = {}
        return real(group, command, at=at)

    return [(Group, "write_state", write_state)]
