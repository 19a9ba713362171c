"""The archives that an agent had at a cut, from their events: by now they may be gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from libs.eventstore.connection_pool import Database
from services.api.adapters.agents.agent_log import AgentLog, LoggedEvent

EVER = """
select distinct id from memory.archive_of_agent_view
where agent_id = %(agent)s and agent_id <> '' and org = %(org)s order by id"""
HAD_BY_OTHERS = """
select distinct archive_id from memory.archive_agent_view
where archive_id = any(%(ids)s) and org = %(org)s and agent_id <> %(agent)s"""
FIELDS = ("name", "description", "embedding_config", "metadata")


@dataclass(frozen=True, slots=True)
class PastArchive:
    """An archive as it was; whether other agents have it now."""

    id: str
    value: dict[str, Any]
    is_shared: bool


async def past_archives(
    database: Database, log: AgentLog, org: str, agent_id: str, cut: int
) -> list[PastArchive]:
    """The archives that were attached to an agent at a cut."""
    values = {"agent": agent_id, "org": org}
    ids = [archive_id for (archive_id,) in await database.fetch(EVER, values)]
    shared = {name for (name,) in await database.fetch(HAD_BY_OTHERS, {**values, "ids": ids})}
    histories = await log.short_histories("memory", org, ids, cut)
    found = []
    for archive_id in ids:
        value = archive_of(histories.get(archive_id, []), agent_id)
        if value is not None:
            found.append(PastArchive(archive_id, value, archive_id in shared))
    return found


def archive_of(events: Sequence[LoggedEvent], agent_id: str) -> dict[str, Any] | None:
    """The archive after these events; None if the agent did not have it."""
    value: dict[str, Any] = {}
    is_attached = False
    for event in events:
        payload = from_json(event.payload)
        match event.topic:
            case "archive.created":
                value = {name: payload.get(name) for name in FIELDS}
                value["created_at"] = event.occurred_at
                is_attached = payload.get("agent_id") == agent_id
            case "archive.changed":
                value |= payload["changes"]
            case "archive.embedding_changed":
                value["embedding_config"] = payload.get("embedding_config")
            case "archive.attached":
                is_attached = is_attached or payload["agent_id"] == agent_id
            case "archive.detached":
                is_attached = is_attached and payload["agent_id"] != agent_id
            case "archive.deleted":
                is_attached = False
    return value if is_attached else None
