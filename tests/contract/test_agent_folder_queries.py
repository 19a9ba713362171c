"""What the API reads of the files of agents, from Postgres."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from libs.eventstore.connection_pool import Database
from services.api.adapters.memory import agent_folder_queries
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries

AGENTS = ["agent-ada", "agent-bob", "agent-eve"]
WORLD = """
insert into memory.folders values ('folder-1', 'org', now(), now(), 'papers', '{}', null);
insert into memory.files
select 'file-' || n, 'org', 'folder-1', timestamptz 'epoch' + n * interval '1 s', now(),
       n || '.txt', n || '.txt', 'completed', null, 'text/plain', 1, 'text-' || n, 4, 9, 1, 1, now()
from generate_series(1, 5) n;
insert into memory.file_texts
select 'text-' || n, half, 'org', 'file-' || n, 1 + 2 * half, 2 + 2 * half, half, 1,
       1 + 2 * half || ' of ' || n || chr(10) || 2 + 2 * half || ' of ' || n || chr(10), now()
from generate_series(1, 4) n, generate_series(0, 1) half;
insert into memory.agent_folders (id, org, owner_id, agent_id, folder_id, created_at)
select agent, 'org', agent, agent, 'folder-1', now() from unnest(%s::text[]) agent;
"""


@pytest.fixture
def queries(migrated_url: str, database: Database) -> AgentFolderQueries:
    several: Any = psycopg.ClientCursor  # which sends several statements at once
    with psycopg.connect(migrated_url, autocommit=True, cursor_factory=several) as connection:
        connection.execute(WORLD.encode(), [AGENTS])
    return AgentFolderQueries(database)


async def test_agents_of_a_list_have_the_same_share_of_its_files(
    queries: AgentFolderQueries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_folder_queries, "FILES_MAX", 7)

    async def seen(*agents: str) -> list[tuple[str, str]]:
        found = await queries.files_of_agents("org", [*agents])
        return [(agent, file["file_id"]) for agent, file in found]

    assert await seen(*AGENTS) == [
        (agent, file) for agent in AGENTS for file in ("file-1", "file-2")
    ], "the last as much as the first"
    assert len(await seen("agent-eve")) == 5


async def test_what_is_seen_of_several_files_is_that_of_each(queries: AgentFolderQueries) -> None:
    def file(number: int, first: int | None = None, last: int | None = None) -> dict[str, Any]:
        return {"file_id": f"file-{number}", "lines": 4, "start_line": first, "end_line": last}

    wanted = [(file(2, 2, 3), 300), (file(1), 300), (file(5), 300), (file(1, 4), 300)]
    assert await queries.visible_contents("org", wanted) == [
        "[Viewing lines 2 to 3 (out of 4 lines)]\n2: 2 of 2\n3: 3 of 2",
        "[Viewing file start (out of 4 lines)]\n1: 1 of 1\n2: 2 of 1\n3: 3 of 1\n4: 4 of 1",
        "[Viewing file start (out of 4 lines)]\n1: ",
        "[Viewing lines 4 to end (out of 4 lines)]\n4: 4 of 1",
    ]
    other = await queries.visible_contents("other", [(file(1), 300)])
    assert other == ["[Viewing file start (out of 4 lines)]\n1: "], "not another organisation's"
    assert await queries.visible_contents("org", []) == []
