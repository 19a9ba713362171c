"""The versions that the target has of what earlier passes took over: where it went on by itself,
the old server is no longer followed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from deploy.letta_migration.target import Missing, Target

EVENTS_PAGE = 500
NOT_ASKED = -1


class TargetVersions(Protocol):
    """The versions of histories in the target."""

    def version(self, aggregate_id: str, agent_id: str, known: int) -> int:
        """The version of a history of an agent, which had the version `known` after the last pass;
        0 where it is gone."""

    def block_version(self, block_id: str) -> int:
        """The version of a block; 0 where it is gone."""


@dataclass(slots=True)
class UnchangedVersions:
    """Those of a target in which nothing happens but the migration."""

    def version(self, aggregate_id: str, agent_id: str, known: int) -> int:
        """The version that it had."""
        return known

    def block_version(self, block_id: str) -> int:
        """No version is asked for."""
        return NOT_ASKED


@dataclass(slots=True)
class AskedVersions:
    """Those that the target answers when it is asked."""

    target: Target
    newest: dict[str, dict[str, int] | None] = field(default_factory=dict)

    def version(self, aggregate_id: str, agent_id: str, known: int) -> int:
        """The version of a history of an agent: that of its newest event which was not imported, or
        the one that it had; 0 where the agent is gone."""
        if agent_id not in self.newest:
            self.newest = {agent_id: self.newest_versions(agent_id)}
        versions = self.newest[agent_id]
        return 0 if versions is None else versions.get(aggregate_id, known)

    def newest_versions(self, agent_id: str) -> dict[str, int] | None:
        """The versions of all histories of an agent to which something happened that was not
        imported; None where the agent is gone."""
        versions: dict[str, int] = {}
        older: dict[str, str] = {}
        path = f"/v1/agents/{agent_id}/events"
        while True:
            try:
                events = self.target.get(path, limit=EVENTS_PAGE, order="desc", **older)
            except Missing:
                return None
            for event in events:
                if event["import_id"] is not None:
                    continue  # also of a pass that was given up: it is sent again
                name, version = str(event["aggregate_id"]), int(event["version"])
                versions[name] = max(versions.get(name, 0), version)
            if len(events) < EVENTS_PAGE:
                return versions
            older = {"after": events[-1]["id"]}

    def block_version(self, block_id: str) -> int:
        try:
            page = self.target.get(f"/v1/blocks/{block_id}/history", limit=1)
        except Missing:
            return 0
        return int(page[0]["version"]) if page else 0
