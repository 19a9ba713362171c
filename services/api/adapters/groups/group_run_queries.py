"""The runs of groups as the api follows them, from the views of the groups and agent services."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from libs.contracts.bus_messages import JsonObject
from libs.eventstore.connection_pool import DatabaseQueries

ACTIVE = ("created", "running")
# What members said in the hops of a run: all the messages of their runs, with the name of each.
# Where an agent is deleted its messages are gone, and those of the transcript stand for them.
HOP_MESSAGES = """
select h.hop, coalesce(m.v1_messages::jsonb, t.v1_messages), h.fields->>'agent_id',
       h.fields->>'name'
from groups.group_hop_view h
left join lateral (
    select jsonb_agg(v1 order by v.position, n) as v1_messages
    from agent.message_view v, json_array_elements(v.v1_messages) with ordinality as e(v1, n)
    where v.run_id = h.member_run_id and v.org = h.org and not v.sent and v.role <> 'approval') m
  on true
left join lateral (
    select jsonb_agg(g.fields order by g.number) as v1_messages
    from groups.group_message_view g where g.run_id = h.run_id and g.hop = h.hop) t on true
where h.run_id = %s and h.org = %s and h.status <> 'open' and h.fields->>'purpose' <> 'pick'
order by h.hop"""


@dataclass(frozen=True, slots=True)
class HopMessages:
    """The V1 messages of one hop."""

    hop: int
    messages: list[JsonObject]


class GroupRunQueries(DatabaseQueries):
    """Reads the runs of groups."""

    async def run(self, org: str, run_id: str) -> dict[str, Any] | None:
        """A group's run as clients read it; None if it is not there."""
        row = await self.database.fetch_one(
            "select document::jsonb from groups.group_run_view where id = %s and org = %s",
            [run_id, org],
        )
        return dict(row[0]) if row else None

    async def hops(self, org: str, run_id: str) -> list[HopMessages]:
        """The members' messages of a run, hop by hop, each message with the name of its speaker."""
        rows = await self.database.fetch(HOP_MESSAGES, [run_id, org])
        return [
            HopMessages(hop, [spoken_by(message, agent_id, name) for message in messages or []])
            for hop, messages, agent_id, name in rows
        ]


def spoken_by(message: JsonObject, agent_id: str, name: str) -> JsonObject:
    """A V1 message that says which agent it is of; a tool's return keeps the name of the tool."""
    own_name = message.get("name")
    return {**message, "sender_id": agent_id, "name": own_name or name}
