"""Archives, and the agents that search them, as rows."""

from __future__ import annotations

from libs.contracts.bus_messages import Event, JsonObject
from libs.contracts.letta.agent_state import timestamp
from libs.contracts.memory.archives import (
    ArchiveAttached,
    ArchiveChanged,
    ArchiveCreated,
    ArchiveDeleted,
    ArchiveDetached,
    ArchiveEmptied,
)
from libs.eventstore.read_model_rows import RowWrites
from services.memory.projections.tables import (
    ARCHIVE_AGENTS,
    ARCHIVE_REEMBEDDINGS,
    ARCHIVE_REMOVALS,
    ARCHIVES,
)


def project_archive(event: Event, org: str, rows: RowWrites) -> None:
    """Archives come, change, are attached and go."""
    archive_id, at = event.originator_id, event.timestamp.isoformat()
    match event:
        case ArchiveCreated():
            rows.upsert(ARCHIVES, archive_row(event, org))
            if event.agent_id:
                rows.upsert(ARCHIVE_AGENTS, attachment(archive_id, event.agent_id, org, at))
        case ArchiveChanged(changes=changes):
            fields: JsonObject = {
                **{name: changes[name] for name in ("name", "description") if name in changes},
                "last_updated_by_id": event.changed_by_id,
                "updated_at": timestamp(event.timestamp),
            }
            columns: JsonObject = {
                name: changes[name] for name in ("name", "metadata") if name in changes
            }
            known: JsonObject = {
                "id": archive_id,
                "version": event.originator_version,
                "fields": fields,
            }
            rows.patch(ARCHIVES, {**known, **columns})
        case ArchiveAttached():
            rows.upsert(ARCHIVE_AGENTS, attachment(archive_id, event.agent_id, org, at))
        case ArchiveDetached():
            rows.delete(ARCHIVE_AGENTS, "id", attachment_id(archive_id, event.agent_id))
        case ArchiveDeleted():
            rows.delete(ARCHIVES, "id", archive_id)
            rows.delete(ARCHIVE_AGENTS, "archive_id", archive_id)
            rows.delete(ARCHIVE_REEMBEDDINGS, "id", archive_id)
            rows.upsert(ARCHIVE_REMOVALS, {"id": archive_id, "org": org, "deleted_at": at})
        case ArchiveEmptied():
            rows.delete(ARCHIVE_REMOVALS, "id", archive_id)


def archive_row(event: ArchiveCreated, org: str) -> JsonObject:
    """A new archive as clients read it."""
    at = timestamp(event.timestamp)
    config = event.embedding_config
    fields: JsonObject = {
        "created_by_id": event.created_by_id,
        "last_updated_by_id": event.created_by_id,
        "created_at": at,
        "updated_at": at,
        "name": event.name,
        "description": event.description,
        "organization_id": org,
        "vector_db_provider": "native",
        "embedding_config": None if config is None else config.model_dump(mode="json"),
        "id": event.originator_id,
    }
    return {
        "id": event.originator_id,
        "org": org,
        "created_at": event.timestamp.isoformat(),
        "version": event.originator_version,
        "name": event.name,
        "fields": fields,
        "metadata": event.metadata,
    }


def attachment(archive_id: str, agent_id: str, org: str, at: str) -> JsonObject:
    """An agent that searches an archive."""
    return {
        "id": attachment_id(archive_id, agent_id),
        "archive_id": archive_id,
        "agent_id": agent_id,
        "org": org,
        "attached_at": at,
    }


def attachment_id(archive_id: str, agent_id: str) -> str:
    """The key of the row that says that an agent searches an archive."""
    return f"{archive_id} {agent_id}"
