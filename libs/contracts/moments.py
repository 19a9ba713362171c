"""Moments: what the read models of a service said of one agent at one place in the order of
commits. Clients that ask `?at=` are answered from them."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from libs.contracts.bus_messages import COMMANDS, Command
from libs.contracts.per_service_commands import command_of_each_service

# The tables that a moment has, by service: what the api reads to show an agent.
MOMENT_TABLES = {
    "agent": (
        *("agents", "agent_tags", "agent_capabilities", "conversations"),
        *("messages", "runs", "approvals"),
    ),
    "memory": (
        *("blocks", "archives", "archive_agents", "passages"),
        *("folders", "files", "agent_folders", "open_files"),
    ),
    "tools": ("tools",),
    "groups": ("groups", "group_members", "shared_blocks"),
    "api": ("identities", "attachments"),
}
SERVICES_WITH_MOMENTS = tuple(MOMENT_TABLES)

# Blocks or tools of an agent that one command may name.
MOMENT_IDS_MAX = 10_000

MATERIALIZE = "moment.materialize"


class MaterializeMoment(Command):
    """Have the rows of an agent as its events up to the commit `cut` make them.

    `ids` are the aggregates that others know to be the agent's: its blocks, its tools. The reply
    has `as_of`, the key of the rows. It may be sent again at any time: what happened up to a commit
    does not change, so rows that are there are used again.
    """

    keeps_reply: ClassVar[bool] = False
    asker: str
    agent_id: str
    cut: int
    ids: Annotated[tuple[str, ...], Field(max_length=MOMENT_IDS_MAX)] = ()

    @property
    def target(self) -> str:
        return self.asker


command_of_each_service(
    MaterializeMoment,
    "Materialize{Service}Moment",
    MATERIALIZE,
    "Have the rows of the {service} service about an agent as they were at a commit.",
    SERVICES_WITH_MOMENTS,
)


def moment_command(service: str) -> type[MaterializeMoment]:
    """The command of a service that makes moments."""
    kind = COMMANDS[f"{service}.{MATERIALIZE}"]
    assert issubclass(kind, MaterializeMoment), f"{kind} makes no moments"
    return kind
