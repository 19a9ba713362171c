"""How the server's agents and blocks say which fleet they are of, in their metadata.

The mark of an agent says which of its parts the file manages, so that what is taken out of the file
is taken back, and what others added stays. The mark of a block has the digest of the file's value
that was last written: only a value that changed in the file is written over what the agent made of
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from cli.fleet.desired import DesiredAgent, Json, digest

MARK = "heeler.fleet"  # the key in `metadata`


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What an agent says of the file that it is made from."""

    fleet: str
    file: str
    name: str
    fingerprint: str = ""
    fields: tuple[str, ...] = ()
    metadata: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()  # digests
    tools: tuple[str, ...] = ()
    mcp_servers: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    schedules: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    permissions: bool = False

    @classmethod
    def of(cls, agent: Mapping[str, Json]) -> Self | None:
        """The mark of a server's agent, None if it has none."""
        document = (agent.get("metadata") or {}).get(MARK)
        if not isinstance(document, dict):
            return None
        known = {each.name: each.type for each in fields(cls)}
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in document.items()
            if name in known
        }
        if not all(isinstance(given.get(name), str) for name in ("fleet", "file", "name")):
            return None
        return cls(**given)

    def document(self) -> dict[str, Json]:
        """As JSON, without what is empty."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
            if value not in ((), "", False)
        }


def mark_for(fleet: str, agent: DesiredAgent) -> Mark:
    """The mark that an agent gets from its file."""
    return Mark(
        fleet=fleet,
        file=agent.file,
        name=agent.name,
        fingerprint=agent.fingerprint,
        fields=tuple(sorted(agent.fields)),
        metadata=tuple(sorted(agent.metadata)),
        rules=tuple(sorted(digest(dict(rule)) for rule in agent.rules)),
        tools=tuple(sorted({*agent.tools, *(tool.name for tool in agent.own_tools)})),
        mcp_servers=tuple(sorted(server.name for server in agent.mcp_servers)),
        folders=tuple(sorted(agent.folders)),
        schedules=tuple(sorted(schedule.name for schedule in agent.schedules)),
        groups=tuple(sorted(membership.group for membership in agent.groups)),
        permissions=agent.permissions is not None,
    )


def is_of(fleet: str, agent: Mapping[str, Json]) -> bool:
    """Whether an agent is this fleet's. One whose name is another than its mark says is not: a
    fork has the mark of its original, and who renames an agent takes it out of the fleet."""
    mark = Mark.of(agent)
    return mark is not None and mark.fleet == fleet and mark.name == agent["name"]


def block_mark(fleet: str, value_digest: str) -> dict[str, Json]:
    """What a block says of the fleet, and of the value that was last written from a file."""
    return {"fleet": fleet, "value": value_digest}


def mark_of_block(block: Mapping[str, Json]) -> Mapping[str, Json]:
    """What a server's block says, empty if it says nothing."""
    document = (block.get("metadata") or {}).get(MARK)
    return document if isinstance(document, dict) else {}
