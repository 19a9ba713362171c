"""Which MCP servers are due to be asked for their tools, by Postgres."""

from __future__ import annotations

from libs.eventstore.connection_pool import Database
from libs.work.work_lease import DueWork
from services.tools.adapters.mcp_server_queries import PostgresMcpServerQueries

ADDED = """
insert into tools.mcp_servers
    (id, org, created_at, name, declared, version, document, discovery, tools, due_at)
values (%s, %s, now(), %s, false, 1, '{}', '{}', '{}', now() - make_interval(secs => %s))"""
LEASED = """
insert into tools.leases (key, epoch, holder, expires_at)
values (%s, 1, 'somebody', now() + interval '1 minute')"""


async def test_organisations_come_by_turns_and_who_is_asked_already_does_not(
    database: Database,
) -> None:
    for number in range(5):
        await database.fetch(ADDED, [f"greedy-{number}", "org-1", f"{number}", 100 - number])
    await database.fetch(ADDED, ["modest-0", "org-2", "0", 1])
    await database.fetch(ADDED, ["later-0", "org-3", "0", -60])
    await database.fetch(LEASED, ["greedy-0"])
    due = PostgresMcpServerQueries(database).due_discoveries
    first, second = DueWork("greedy-1", "org-1"), DueWork("modest-0", "org-2")
    assert await due(3, 2) == [first, second]
    assert [server.id for server in await due(3, 10)] == [
        "greedy-1",
        "modest-0",
        "greedy-2",
        "greedy-3",
    ]
