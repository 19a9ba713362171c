"""The messages of the runs of a batch, from the views that the agent service publishes."""

from __future__ import annotations

from dataclasses import dataclass

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import DatabaseQueries
from services.api.adapters.conversations.context_message_queries import ShownMessage
from services.api.adapters.resource_query_builder import Slice, UnknownCursor

RUNS_OF_BATCH = """
from agent.batch_item_view i
cross join lateral
    (select * from agent.message_view where run_id = i.run_id offset 0) m
where i.batch_id = %(batch)s and i.org = %(org)s and m.org = %(org)s
  and (%(agent)s::text is null or i.agent_id = %(agent)s)"""
PLACE = 'm.recorded_at, m.id collate "C"'
MODEL = (
    "(select ('{' || a.body || '}')::json->'llm_config'->>'model' from agent.agent_view a"
    " where a.id = i.agent_id and a.org = i.org)"
)


@dataclass(frozen=True, slots=True)
class BatchMessage:
    """A message of an item of a batch, and what V1 says of it besides."""

    message: ShownMessage
    item_id: str
    custom_id: str | None
    agent: JsonObject


class BatchMessageQueries(DatabaseQueries):
    """Reads the messages of batches."""

    async def messages(
        self, org: str, batch_id: str, agent_id: str | None, part: Slice
    ) -> list[BatchMessage]:
        """A page of the messages of a batch, of all agents or of one, in the order of the page.
        Raises UnknownCursor."""
        values = {"org": org, "batch": batch_id, "agent": agent_id, "limit": part.limit}
        conditions = ""
        for name, cursor, sign in part.cursors:
            row = await self.database.fetch_one(
                f"select m.recorded_at {RUNS_OF_BATCH} and m.id = %(cursor)s",
                {**values, "cursor": cursor},
            )
            if row is None:
                raise UnknownCursor(name, cursor)
            conditions += f" and ({PLACE}) {sign} (%({name}_at)s, %({name}_id)s)"
            values |= {f"{name}_at": row[0], f"{name}_id": cursor}
        rows = await self.database.fetch(
            "select m.id, m.role, m.created_at, m.run_id, m.step_id, m.v1_messages::text, i.id,"
            f" i.request->>'custom_id', i.agent_id, {MODEL}, i.org {RUNS_OF_BATCH}{conditions}"
            f' order by m.recorded_at {part.order}, m.id collate "C" {part.order}'
            " limit %(limit)s",
            values,
        )
        return [
            BatchMessage(
                ShownMessage(*row[:6]),
                row[6],
                row[7],
                {"id": row[8], "llm_config": {"model": row[9]}, "created_by_id": None},
            )
            for row in rows
        ]
