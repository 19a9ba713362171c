"""What a group may be made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product

from libs.contracts.bus_messages import CONFLICT, INVALID, NOT_FOUND, UNPROCESSABLE, Rejected
from libs.contracts.groups.groups import (
    GROUPS_MAX,
    MEMBERS_MAX,
    SHARED_BLOCKS_MAX,
    GroupConfig,
    ManagerType,
)

WITH_MANAGER: frozenset[ManagerType] = frozenset(
    {"supervisor", "dynamic", "sleeptime", "voice_sleeptime"}
)
BUFFER_MESSAGES_MIN = 5


@dataclass(frozen=True, slots=True)
class KnownAgent:
    """An agent as a group sees it: its name, and its blocks by their labels."""

    name: str
    blocks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What a decision about a group depends on: those of the agents and blocks that exist (blocks
    with their labels), and how many groups the organisation has besides. `kept` is what a group
    has already: it may be gone meanwhile, and is taken from the group in its own time."""

    agents: Mapping[str, KnownAgent] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)
    groups: int = 0
    kept: frozenset[str] = frozenset()

    def find_unknown(self, ids: Iterable[str], known: Mapping[str, object]) -> list[str]:
        """Return those that neither exist nor are kept."""
        return [id for id in ids if id not in known and id not in self.kept]


def problem_of_config(
    group_id: str, config: GroupConfig, facts: GroupFacts, *, field: str = ""
) -> Rejected | None:
    """Why a group cannot be so, if it cannot. `field` is what the client called the id at fault,
    where it gave a single one."""
    return (
        problem_of_members(group_id, config, facts, field or "agent_ids")
        or problem_of_manager(config, facts)
        or problem_of_buffers(config)
        or problem_of_blocks(config, facts, field or "shared_block_ids")
        or too_many_groups(facts.groups)
    )


def problem_of_members(
    group_id: str, config: GroupConfig, facts: GroupFacts, field: str
) -> Rejected | None:
    """Why these cannot be the members."""
    ids = config.agent_ids
    if len(ids) > MEMBERS_MAX:
        return unprocessable(
            field,
            f"a group has at most {MEMBERS_MAX} members, and these are {len(ids)}:"
            " leave some out, or make several groups",
        )
    if group_id in ids:
        return unprocessable(field, "a group cannot be a member of itself: name agents")
    if twice := [agent_id for agent_id, times in Counter(ids).items() if times > 1]:
        return unprocessable(field, f"{twice[0]} is there twice: name each agent once")
    if config.manager_agent_id in ids:
        return unprocessable(
            field,
            f"{config.manager_agent_id} is the manager of the group, and cannot be one of its"
            " members: leave it out, or choose another `manager_config.manager_agent_id`",
        )
    if unknown := facts.find_unknown(ids, facts.agents):
        return missing_agent(field, unknown[0])
    return problem_of_names(config, facts, field)


def problem_of_names(config: GroupConfig, facts: GroupFacts, field: str) -> Rejected | None:
    """Why a manager could not tell the members apart: it picks them by their names."""
    if config.manager_type not in ("dynamic", "intelligent"):
        return None
    agents = (facts.agents.get(agent_id) for agent_id in config.agent_ids)
    names = Counter(agent.name for agent in agents if agent)
    if twice := [name for name, times in names.items() if times > 1]:
        return unprocessable(
            field, f"two members are called '{twice[0]}', and speakers are picked by name: rename"
            " one of them",
        )  # fmt: skip
    return None


def problem_of_manager(config: GroupConfig, facts: GroupFacts) -> Rejected | None:
    """Why the manager cannot be that."""
    field = "manager_config.manager_agent_id"
    if config.manager_agent_id is None:
        if config.manager_type in WITH_MANAGER:
            return unprocessable(
                field, f"a {config.manager_type} group needs a manager: name an agent"
            )
        return None
    if facts.find_unknown([config.manager_agent_id], facts.agents):
        return missing_agent(field, config.manager_agent_id)
    return None


def problem_of_buffers(config: GroupConfig) -> Rejected | None:
    """Why the bounds of a message buffer make no sense, as V1 has them."""
    most, least = config.max_message_buffer_length, config.min_message_buffer_length
    if most is None and least is None:
        return None
    names = "`max_message_buffer_length` and `min_message_buffer_length`"
    if most is None or least is None:
        reason = f"Both {names} must be provided together: give the other one, too"
    elif min(most, least) < BUFFER_MESSAGES_MIN:
        reason = f"Both {names} must be greater than {BUFFER_MESSAGES_MIN - 1}: give larger ones"
    elif most <= least:
        reason = (
            f"`max_message_buffer_length` must be greater than `min_message_buffer_length`, and"
            f" {most} is not greater than {least}: give a larger or a smaller one"
        )
    else:
        return None
    return Rejected(code=INVALID, reason=reason)


def problem_of_blocks(config: GroupConfig, facts: GroupFacts, field: str) -> Rejected | None:
    """Why the agents cannot share these blocks."""
    ids = config.shared_block_ids
    if len(ids) > SHARED_BLOCKS_MAX:
        return unprocessable(
            field,
            f"a group shares at most {SHARED_BLOCKS_MAX} blocks, and these are {len(ids)}:"
            " leave some out",
        )
    if twice := [block_id for block_id, times in Counter(ids).items() if times > 1]:
        return unprocessable(field, f"{twice[0]} is there twice: name each block once")
    if unknown := facts.find_unknown(ids, facts.blocks):
        reason = f"`{field}`: Block with id '{unknown[0]}' not found: name one that exists"
        return Rejected(code=NOT_FOUND, reason=reason)
    labels = Counter(facts.blocks[block_id] for block_id in ids if block_id in facts.blocks)
    if twice := [label for label, times in labels.items() if times > 1]:
        return unprocessable(
            field, f"two blocks have the label '{twice[0]}': an agent sees one of each label"
        )
    return problem_of_labels(config, facts, field)


def problem_of_labels(config: GroupConfig, facts: GroupFacts, field: str) -> Rejected | None:
    """Why an agent could not see a shared block: it has another one of that label."""
    agents = [*config.agent_ids, *filter(None, [config.manager_agent_id])]
    for agent_id, block_id in product(agents, config.shared_block_ids):
        agent, label = facts.agents.get(agent_id), facts.blocks.get(block_id)
        other = agent.blocks.get(label) if agent and label else None
        new = not {agent_id, block_id} <= facts.kept
        if other not in (None, block_id) and new:
            reason = (
                f"`{field}`: agent {agent_id} has another block with the label '{label}' ({other}),"
                f" and would have {block_id}, too: detach or relabel one of them"
            )
            return Rejected(code=CONFLICT, reason=reason)
    return None


def too_many_groups(count: int) -> Rejected | None:
    """The refusal of one more group, where an organisation has as many as it may."""
    if count < GROUPS_MAX:
        return None
    reason = f"This organisation has {count} groups, and may have at most {GROUPS_MAX}: delete some"
    return Rejected(code=UNPROCESSABLE, reason=reason)


def missing_agent(field: str, agent_id: str) -> Rejected:
    """The refusal for an agent that is not there."""
    reason = f"`{field}`: Agent with ID {agent_id} not found: name one that exists"
    return Rejected(code=NOT_FOUND, reason=reason)


def unprocessable(field: str, words: str) -> Rejected:
    """The refusal of what a field says."""
    return Rejected(code=UNPROCESSABLE, reason=f"`{field}`: {words}")
