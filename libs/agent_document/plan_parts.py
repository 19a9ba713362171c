"""Parts of a fleet's plan, and the fleet's record of what was applied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from libs.agent_document.desired import KEY_CHARS_MAX, DesiredAgent, Fields, Json, Key, Part, digest
from libs.agent_document.differences import Change
from libs.agent_document.requests import Request
from libs.contracts.letta.request_size_limits import INTEGER_MAX, JsonLimit, Name

Kind = Literal["tool", "mcp_server", "shared_block", "agent", "group"]
Action = Literal["create", "change", "unchanged", "delete", "refuse", "release"]

type Document = Mapping[str, Json]
type Place = Annotated[str, Field(max_length=KEY_CHARS_MAX)]
FILES_MAX = 10_000
PROBLEMS_MAX = 100
NAMES_SHOWN_MAX = 10
PRESENT_LIMIT = JsonLimit(bytes_max=16 << 20, depth_max=1, keys_max=FILES_MAX)


def some_of(names: Sequence[str]) -> str:
    """Names for people; of many the first ones."""
    more = len(names) - NAMES_SHOWN_MAX
    return ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


class Applied(Part):
    """The content of a thing's file when it was applied last, so that values which the file no
    longer has are taken back and those of others stay. `fields` has a digest of each, `blocks` one
    of each value; `rejected` says that the file was refused since."""

    fingerprint: str = ""
    fields: dict[str, str] = Field(default_factory=dict)
    metadata: list[str] = Field(default_factory=list)
    rules: list[str] = Field(default_factory=list)  # digests
    tools: list[str] = Field(default_factory=list)
    mcp_servers: list[str] = Field(default_factory=list)
    folders: list[str] = Field(default_factory=list)
    schedules: list[str] = Field(default_factory=list)
    groups: list[str] = Field(default_factory=list)
    permissions: bool = False
    blocks: dict[str, str] = Field(default_factory=dict)
    shared_blocks: list[str] = Field(default_factory=list)
    rejected: bool = False


class Member(Part):
    """A thing that a fleet owns, under the key by which its files know it."""

    kind: Kind
    key: str
    id: str
    name: str
    applied: Applied = Applied()


class RejectedFile(Part):
    """A file that is no agent as it stands. Its agent, if it has one, is told why."""

    key: Key
    file: Key
    name: Name = ""
    fingerprint: Name
    problems: Annotated[list[Fields], Field(max_length=PROBLEMS_MAX)]


class Wanted(Part):
    """All that a plan is made from.

    Args:
        agents: what the files that are applied now say.
        rejected: the files among them that are wrong.
        folders: the folders that are applied, as keys begin there; empty is all of the fleet.
        present: all files in them, and where agents are pruned all of the fleet, whether or not
            they are applied now: the names of their agents by their keys, empty where that cannot
            be read.
        adopt: whether things that this fleet does not own become its own.
        prune: whether agents without files are deleted.
        prune_max: how many of them at most; None: a fifth of the fleet, and five in any case.
        reset_memory: the names of agents and of shared blocks whose values are those of the files.
        origin: where the files are, in words; a fleet is pruned from where it was made.
    """

    agents: list[DesiredAgent] = Field(default_factory=list, max_length=FILES_MAX)
    rejected: list[RejectedFile] = Field(default_factory=list, max_length=FILES_MAX)
    present: Annotated[dict[Key, str], PRESENT_LIMIT] = Field(default_factory=dict)
    folders: list[Place] = Field(default_factory=list, max_length=FILES_MAX)
    adopt: bool = False
    prune: bool = False
    prune_max: Annotated[int, Field(ge=0, le=INTEGER_MAX)] | None = None
    reset_memory: list[Name] = Field(default_factory=list, max_length=FILES_MAX)
    origin: Place = ""

    def covers(self, key: str) -> bool:
        """Whether the file of that key is, or would be, in a folder that is applied."""
        return key.startswith(tuple(self.folders))


class Owner(Part):
    """The fleet that owns a thing, and the key that it knows it by."""

    fleet_id: str
    fleet: str
    key: str


class Unit(BaseModel):
    """The plan for one thing, whole or not at all.

    Args:
        id: its id, where it is there.
        steps: the requests that make it so.
        notes: what people should know, such as values that are kept.
        unset: the secrets that are not known here, without which it cannot be applied.
        users: of what agents use: their keys.
        applied: what the fleet remembers of it then; None: nothing new.
        before: what it remembers now; None: it is not the fleet's.
        taken_from: the other fleet that owns it now.
        releases: whether the fleet owns it no more then.
        report: what its agent is told of the file.
    """

    model_config = ConfigDict(extra="forbid")

    kind: Kind
    key: str
    name: str
    file: str = ""
    action: Action = "unchanged"
    id: str | None = None
    changes: list[Change] = Field(default_factory=list)
    steps: list[Request] = Field(default_factory=list)
    problems: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    unset: list[str] = Field(default_factory=list)
    users: list[str] = Field(default_factory=list)
    applied: Applied | None = None
    before: Member | None = None
    taken_from: Owner | None = None
    releases: bool = False
    report: dict[str, Json] | None = None

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} '{self.name}'"

    def refuse(self, problem: str) -> None:
        """Nothing of this is sent."""
        self.action = "refuse"
        self.problems.append(problem)
        self.changes, self.steps = [], []

    def change(self, change: Change, *requests: Request) -> None:
        """One more thing becomes different."""
        self.changes.append(change)
        self.steps.extend(requests)

    @property
    def is_to_do(self) -> bool:
        """Whether an apply does anything for it, if only to note that its file is right again."""
        was_rejected = self.before is not None and self.before.applied.rejected
        return self.action != "unchanged" or (was_rejected and self.applied is not None)

    @property
    def sign(self) -> str:
        """Differs where what would be done, or what it would be done to, differs."""
        return digest(self.model_dump(mode="json"))


class FleetPlan(BaseModel):
    """All units in the order in which they are applied; why none of them can be, if so; and what
    people should know."""

    model_config = ConfigDict(extra="forbid")

    units: list[Unit] = Field(default_factory=list)
    problem: str = ""
    notes: list[str] = Field(default_factory=list)

    def agents(self) -> Iterator[Unit]:
        """The units of the agents alone."""
        return (unit for unit in self.units if unit.kind == "agent")


@dataclass
class FleetState:
    """The present state of the things that files speak of, read at one time."""

    fleet_id: str
    agents: dict[str, Document] = field(default_factory=dict)  # by id
    tools: dict[str, Document] = field(default_factory=dict)
    default_model: str | None = None  # of agents whose files name none; where it was asked for
    mcp_servers: dict[str, Document] = field(default_factory=dict)
    mcp_tools: dict[str, dict[str, str]] = field(default_factory=dict)  # ids by server and name
    shared_blocks: dict[str, Document] = field(default_factory=dict)  # of this fleet, by label
    folders: dict[str, Document] = field(default_factory=dict)
    schedules: dict[str, list[Document]] = field(default_factory=dict)  # by the agent's id
    groups: dict[str, Document] = field(default_factory=dict)
    permissions: dict[str, Document] = field(default_factory=dict)  # by the agent's id
    members: Sequence[Member] = ()  # of this fleet
    owners: Mapping[str, Owner] = field(default_factory=dict)  # by the ids of things
    shared_ids: frozenset[str] = frozenset()  # of blocks that any fleet shares

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Document]]:
        """The agents by their names, of several with one name the oldest first."""
        found: dict[str, list[Document]] = {}
        for agent in sorted(self.agents.values(), key=itemgetter("created_at", "id")):
            found.setdefault(agent["name"], []).append(agent)
        return found

    @cached_property
    def by_key(self) -> Mapping[tuple[Kind, str], Member]:
        """The fleet's members, by their kinds and keys."""
        return {(member.kind, member.key): member for member in self.members}

    def member(self, kind: Kind, key: str) -> Member | None:
        """The fleet's record of a thing."""
        return self.by_key.get((kind, key))

    def is_ours(self, thing_id: str) -> bool:
        """Whether this fleet owns a thing."""
        owner = self.owners.get(thing_id)
        return owner is not None and owner.fleet_id == self.fleet_id

    def other_owner(self, thing_id: str) -> Owner | None:
        """The other fleet that owns a thing, if one does."""
        return None if self.is_ours(thing_id) else self.owners.get(thing_id)

    def adoption(self, thing_id: str) -> Change:
        """That a thing becomes this fleet's."""
        owner = self.owners.get(thing_id)
        return Change(field="fleet", before=owner and owner.fleet, after="this one")

    def why_not_ours(self, thing_id: str) -> str:
        """The owner of a thing that is not this fleet's."""
        owner = self.owners.get(thing_id)
        return f"belongs to the fleet '{owner.fleet}'" if owner else "was not made by this fleet"


@dataclass
class Subject:
    """One agent while it is planned: what is wanted, what there is, and what may be done."""

    desired: DesiredAgent
    agent: Document
    before: Applied
    state: FleetState
    wanted: Wanted
    unit: Unit
    cleanups: list[Request] = field(default_factory=list)  # sent last

    @property
    def agent_id(self) -> str:
        """Its id on the server."""
        return str(self.agent["id"])

    @property
    def resets_memory(self) -> bool:
        """Whether its blocks get the values of the file, whatever it made of them."""
        return self.desired.name in self.wanted.reset_memory
