"""A group: agents that work together, the blocks that they share, and their shared state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from pydantic import BaseModel

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import (
    CONFLICT,
    INVALID,
    NOT_FOUND,
    TOO_LARGE,
    Event,
    JsonObject,
    Rejected,
)
from libs.contracts.groups.groups import (
    CreateGroup,
    GroupBlockAttached,
    GroupBlockDetached,
    GroupConfig,
    GroupCreated,
    GroupDeleted,
    GroupStateUpdated,
    GroupUpdated,
    MemberAdded,
    MemberBlock,
    MemberBlocksChanged,
    MemberRemoved,
    UpdateGroupState,
)
from libs.contracts.groups.sleeptime import Review, ReviewRequested, ReviewStarted, RunCounted
from services.groups.domain.group_rules import GroupFacts, problem_of_config
from services.groups.domain.state_document import merge_patch, problem_of

# Runs that end while others do are counted in any order; a copy of a count comes soon after it.
COUNTED_RUNS_MAX = 100
# What an update leaves alone: members and shared blocks are changed by events of their own.
LISTS = frozenset({"agent_ids", "shared_block_ids"})


class GroupState(BaseModel):
    """What is known of a group. `shared` are the blocks that it has offered to agents, or shared
    with them, and `offered_in` says by which version of the group each was offered; both by keys.
    """

    config: GroupConfig | None = None
    deleted: bool = False
    shared_state: JsonObject = {}
    shared_state_version: int = 0
    shared: dict[str, MemberBlock] = {}
    offered_in: dict[str, int] = {}
    # The runs that a sleeptime group has counted last, and the reviews that have not started.
    counted_run_ids: list[str] = []
    reviews: list[Review] = []
    reviewed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DueBlocks:
    """What is to be done so that the agents of a group have its blocks, and others do not. What has
    become of each offer has to be found out, before a block that is `unwanted` is returned."""

    to_offer: list[MemberBlock] = field(default_factory=list)
    to_settle: list[MemberBlock] = field(default_factory=list)
    to_return: list[MemberBlock] = field(default_factory=list)
    unwanted: frozenset[str] = frozenset()


class Group(Aggregate[GroupState]):
    """One group."""

    State = GroupState

    @property
    def deleted(self) -> bool:
        """Whether the group was deleted."""
        return self.state.deleted

    @property
    def present(self) -> GroupConfig | None:
        """What the group is; None where it does not exist, or no longer."""
        return None if self.state.deleted else self.state.config

    def create(
        self, command: CreateGroup, facts: GroupFacts, *, at: datetime, actor: str
    ) -> Rejected | None:
        """Begin to exist, of agents and blocks that exist. The same again is no event."""
        config = with_counter(command.config)
        if self.exists:
            if self.present == config:
                return None
            return Rejected(code=CONFLICT, reason=f"Group {self.id} exists already")
        if refused := problem_of_config(self.id, config, facts):
            return refused
        if too_large := problem_of(command.shared_state):
            return Rejected(code=TOO_LARGE, reason=f"`shared_state`: {too_large}")
        self.record(
            GroupCreated,
            at=at,
            config=config,
            shared_state=command.shared_state,
            created_by_id=actor,
        )
        return None

    def update(self, changes: JsonObject, facts: GroupFacts, *, at: datetime) -> Rejected | None:
        """Change fields; what stays the same is no event."""
        before = self.present
        if before is None:
            return missing(self.id)
        wanted_type = changes.get("manager_type", before.manager_type)
        if wanted_type != before.manager_type:
            return changed_type(before.manager_type, str(wanted_type))
        after = GroupConfig.model_validate(before.model_dump(mode="json") | changes)
        if after.sleeptime_agent_frequency != before.sleeptime_agent_frequency:
            after = after.model_copy(update={"turns_counter": None})
        after = with_counter(after)
        if refused := problem_of_config(self.id, after, beside(before, facts)):
            return refused
        old, new = before.model_dump(mode="json"), after.model_dump(mode="json")
        changed = {name: new[name] for name in new if new[name] != old[name] and name not in LISTS}
        if changed:
            self.record(GroupUpdated, at=at, changes=changed)
        self.replace_members(after.agent_ids, at=at)
        self.replace_blocks(after.shared_block_ids, at=at)
        return None

    def replace_members(self, wanted: list[str], *, at: datetime) -> None:
        """Have these members in this order: those who leave do so first."""
        for agent_id in self.members:
            if agent_id not in wanted:
                self.leave(agent_id, at=at)
        for agent_id in wanted:
            if agent_id not in self.members:
                self.join(agent_id, at=at)
        if wanted != self.members:
            self.record(GroupUpdated, at=at, changes={"agent_ids": [*wanted]})

    def replace_blocks(self, wanted: list[str], *, at: datetime) -> None:
        """Share these blocks and no others."""
        for block_id in self.block_ids:
            if block_id not in wanted:
                self.detach_block(block_id, at=at)
        for block_id in wanted:
            self.share(block_id, at=at)

    def add_member(self, agent_id: str, facts: GroupFacts, *, at: datetime) -> Rejected | None:
        """Have an agent join; twice is once."""
        config = self.present
        if config is None:
            return missing(self.id)
        if agent_id in config.agent_ids:
            return None
        after = config.model_copy(update={"agent_ids": [*config.agent_ids, agent_id]})
        if refused := problem_of_config(self.id, after, beside(config, facts), field="agent_id"):
            return refused
        self.join(agent_id, at=at)
        return None

    def remove_member(self, agent_id: str, *, at: datetime) -> Rejected | None:
        """Have an agent leave the group; refuses one that is no member."""
        if self.present is None:
            return missing(self.id)
        if agent_id not in self.members:
            reason = f"`agent_id`: Agent '{agent_id}' is not a member of group '{self.id}'"
            return Rejected(code=NOT_FOUND, reason=reason)
        self.leave(agent_id, at=at)
        return None

    def attach_block(self, block_id: str, facts: GroupFacts, *, at: datetime) -> Rejected | None:
        """Share a block; twice is once."""
        config = self.present
        if config is None:
            return missing(self.id)
        if block_id in config.shared_block_ids:
            return None
        after = config.model_copy(update={"shared_block_ids": [*self.block_ids, block_id]})
        if refused := problem_of_config(self.id, after, beside(config, facts), field="block_id"):
            return refused
        self.share(block_id, at=at)
        return None

    def detach_block(self, block_id: str, *, at: datetime) -> Rejected | None:
        """Share a block no more; one that is not shared is no event."""
        if self.present is None:
            return missing(self.id)
        if block_id in self.block_ids:
            left = [shared for shared in self.block_ids if shared != block_id]
            self.record(GroupBlockDetached, at=at, block_id=block_id, block_ids=left)
        return None

    def write_state(self, command: UpdateGroupState, *, at: datetime) -> Rejected | None:
        """Change the shared state as the group's mode says; what stays the same is no event."""
        config = self.present
        if config is None:
            return missing(self.id)
        now = self.state.shared_state_version
        if command.version is not None and command.version != now:
            reason = (
                f"`version`: the shared state has version {now}, and this write is for version"
                f" {command.version}: read it again, and write what you want to change of it"
            )
            return Rejected(code=CONFLICT, reason=reason, details={"version": now})
        wanted = command.document
        if config.shared_state_mode == "merge":
            wanted = merge_patch(self.state.shared_state, wanted)
        if too_large := problem_of(wanted):
            return Rejected(code=TOO_LARGE, reason=f"`state`: {too_large}")
        if wanted != self.state.shared_state:
            self.record(GroupStateUpdated, at=at, state=wanted, version=now + 1)
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Stop existing; the agents stay."""
        if self.present is None:
            return missing(self.id)
        self.record(GroupDeleted, at=at)
        return None

    @property
    def members(self) -> list[str]:
        """The members in their order."""
        return [] if self.state.config is None else self.state.config.agent_ids

    @property
    def block_ids(self) -> list[str]:
        """The blocks that the agents share."""
        return [] if self.state.config is None else self.state.config.shared_block_ids

    def join(self, agent_id: str, *, at: datetime) -> None:
        """Record one more member, the last one."""
        now = [*self.members, agent_id]
        self.record(MemberAdded, at=at, agent_id=agent_id, agent_ids=now)

    def leave(self, agent_id: str, *, at: datetime) -> None:
        """Record that a member has left."""
        left = [member for member in self.members if member != agent_id]
        self.record(MemberRemoved, at=at, agent_id=agent_id, agent_ids=left)

    def share(self, block_id: str, *, at: datetime) -> None:
        """Record one more block; twice is once."""
        if block_id not in self.block_ids:
            now = [*self.block_ids, block_id]
            self.record(GroupBlockAttached, at=at, block_id=block_id, block_ids=now)

    def due_blocks(self) -> DueBlocks:
        """The blocks that agents still lack, and those that they have no longer a reason for."""
        wanted: list[MemberBlock] = []
        config = self.present
        if config is not None:
            agents = [*config.agent_ids, *filter(None, [config.manager_agent_id])]
            wanted = [
                MemberBlock(agent_id=agent_id, block_id=block_id)
                for agent_id in agents
                for block_id in config.shared_block_ids
            ]
        shared, keys = self.state.shared, {pair.key for pair in wanted}
        unwanted = shared.keys() - keys
        return DueBlocks(
            [pair for pair in wanted if pair.key not in shared],
            [pair for pair in shared.values() if pair.status == "offered"],
            [pair for key, pair in shared.items() if key in unwanted and pair.status != "offered"],
            frozenset(unwanted),
        )

    def record_sharing(
        self, changed: list[MemberBlock], returned: list[MemberBlock], *, at: datetime
    ) -> None:
        """Note which blocks were offered, shared and taken back; what is known is no event."""
        shared = self.state.shared
        new = [pair for pair in changed if shared.get(pair.key) != pair]
        gone = [pair for pair in returned if pair.key in shared]
        if new or gone:
            self.record(MemberBlocksChanged, at=at, changed=new, returned=gone)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state, version = self.state, event.originator_version
        match event:
            case GroupCreated():
                state.config = event.config
                state.shared_state = event.shared_state
            case GroupUpdated():
                self.set(event.changes)
            case MemberAdded() | MemberRemoved():
                self.set({"agent_ids": [*event.agent_ids]})
            case GroupBlockAttached() | GroupBlockDetached():
                self.set({"shared_block_ids": [*event.block_ids]})
            case MemberBlocksChanged():
                gone = {pair.key for pair in event.returned}
                kept = {key: pair for key, pair in state.shared.items() if key not in gone}
                state.shared = kept | {pair.key: pair for pair in event.changed}
                known = state.offered_in
                state.offered_in = {key: known.get(key, version) for key in state.shared}
            case GroupStateUpdated():
                state.shared_state = event.state
                state.shared_state_version = event.version
            case RunCounted() | ReviewRequested() | ReviewStarted():
                self.review(event)
            case GroupDeleted():
                state.deleted = True

    def review(self, event: RunCounted | ReviewRequested | ReviewStarted) -> None:
        """Evolve what a sleeptime group knows of its manager's runs."""
        state = self.state
        match event:
            case RunCounted():
                state.counted_run_ids = [*state.counted_run_ids, event.run_id][-COUNTED_RUNS_MAX:]
                self.set({"turns_counter": event.turns_counter})
            case ReviewRequested():
                state.reviews = [*state.reviews, event.review]
                state.reviewed_at = event.review.requested_at
                self.set({"last_processed_message_id": event.review.last_message_id})
            case ReviewStarted():
                state.reviews = [r for r in state.reviews if r.run_id != event.run_id]

    def set(self, changes: JsonObject) -> None:
        """Have other values in some fields of the configuration."""
        assert self.state.config is not None, "a group is changed after it was created"
        fields = self.state.config.model_dump(mode="json") | changes
        self.state.config = GroupConfig.model_validate(fields)


def everything_in(config: GroupConfig) -> list[str]:
    """The agents and blocks of a group."""
    manager = [config.manager_agent_id] if config.manager_agent_id else []
    return [*config.agent_ids, *manager, *config.shared_block_ids]


def beside(config: GroupConfig, facts: GroupFacts) -> GroupFacts:
    """The facts for a change of a group: what it has already need not be there any more."""
    return replace(facts, kept=frozenset(everything_in(config)))


def with_counter(config: GroupConfig) -> GroupConfig:
    """A configuration with the counter that a frequency begins with, as V1 has it."""
    if config.sleeptime_agent_frequency and config.turns_counter is None:
        return config.model_copy(update={"turns_counter": -1})
    return config


def changed_type(before: str, wanted: str) -> Rejected:
    """The refusal of another type of manager."""
    reason = (
        f"`manager_config.manager_type`: Cannot change group pattern after creation: this group is"
        f" {before}; make a new group for {wanted}"
    )
    return Rejected(code=INVALID, reason=reason)


def missing(group_id: str) -> Rejected:
    """The refusal for a group that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Group with ID {group_id} not found")
