"""What a plan is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from cli.fleet.desired import DesiredAgent, Json
from cli.fleet.differences import Change
from cli.fleet.requests import Ref, Request
from cli.fleet.server_state import ServerState

Action = Literal["create", "change", "unchanged", "delete", "refuse"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What `heeler apply` was asked for besides the files.

    Args:
        adopt: whether agents, tools and MCP servers of the same name that are not of this fleet
            become so.
        names: what the agents of all files are called.
        reset_memory: whether blocks get the values of the files, whatever agents made of them.
    """

    fleet: str
    adopt: bool = False
    reset_memory: bool = False
    names: frozenset[str] = frozenset()


@dataclass(kw_only=True)
class AgentPlan:
    """What becomes of one agent."""

    name: str
    file: str
    action: Action = "unchanged"
    agent_id: str | None = None
    desired: DesiredAgent | None = None
    changes: list[Change] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def refuse(self, problem: str) -> None:
        """Nothing of this file is sent."""
        self.action = "refuse"
        self.problems.append(problem)


@dataclass(kw_only=True)
class ResourcePlan:
    """What becomes of something that agents use: a tool, an MCP server, a block, a group."""

    ref: Ref
    users: Sequence[str]  # names of agents
    changes: list[Change] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    problem: str = ""


@dataclass(kw_only=True)
class FleetPlan:
    """Everything, in the order in which it is sent: resources, agents, groups, deletions."""

    resources: list[ResourcePlan] = field(default_factory=list)
    agents: list[AgentPlan] = field(default_factory=list)
    groups: list[ResourcePlan] = field(default_factory=list)
    deletions: list[AgentPlan] = field(default_factory=list)


@dataclass(frozen=True)
class Subject:
    """One agent while it is planned: what is wanted, what there is, and what may be done."""

    desired: DesiredAgent
    agent: Mapping[str, Json]
    state: ServerState
    policy: Policy
    plan: AgentPlan
    cleanups: list[Request] = field(default_factory=list)  # sent before the mark forgets them

    @property
    def agent_id(self) -> str:
        """Its id on the server."""
        return str(self.agent["id"])

    def change(self, change: Change, *requests: Request) -> None:
        """One more thing becomes different."""
        self.plan.changes.append(change)
        self.plan.requests.extend(requests)
