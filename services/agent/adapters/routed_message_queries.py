"""State of a message that was routed to another agent, from the views of the groups service."""

from __future__ import annotations

from dataclasses import dataclass

from libs.eventstore.connection_pool import DatabaseQueries


@dataclass(frozen=True, slots=True)
class RoutedProgress:
    """The state of a routed message. `run_id` and `agent_id` are those of the delivery that came
    last; it is the answer once the message is completed, and `reason` says why it failed."""

    status: str
    agent_id: str
    run_id: str
    reason: str = ""


class RoutedMessageQueries(DatabaseQueries):
    """The queries about routed messages."""

    async def routed_progress(self, org: str, routed_message_id: str) -> RoutedProgress | None:
        """The state of a routed message, if it was accepted."""
        row = await self.database.fetch_one(
            "select m.status, d.agent_id, d.run_id, coalesce(m.error->>'reason', '')"
            " from groups.routed_message_view m cross join lateral ("
            " select agent_id, run_id from groups.routed_delivery_view"
            " where routed_message_id = m.id order by number desc limit 1) d"
            " where m.id = %s and m.org = %s",
            [routed_message_id, org],
        )
        return RoutedProgress(*row) if row else None
