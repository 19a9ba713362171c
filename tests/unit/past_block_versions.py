"""What blocks were, from the events of the in-memory store."""

from __future__ import annotations

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.in_memory_database import InMemoryDatabase


class InMemoryPastBlockVersions:
    """Keeps the contract of `PastBlockVersions`."""

    def __init__(self, database: InMemoryDatabase) -> None:
        self.schema = database.schema("memory")

    async def fields_at(self, org: str, block_id: str, version: int) -> JsonObject | None:
        fields: JsonObject = {}
        found = False
        for event in self.schema.streams.get(block_id, []):
            if event.org != org or event.version > version:
                continue
            found = event.version == version and event.topic != "block.deleted"
            payload = event.payload
            changed = payload.get("block") or payload.get("changes") or {}
            assert isinstance(changed, dict)
            fields |= changed
        return fields if found else None
