"""The files of agents are put into the places that a statement leaves for them."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from services.api.adapters.memory import agent_file_blocks
from services.api.adapters.memory.agent_file_blocks import NOT_SHOWN, with_file_blocks
from services.api.adapters.memory.agent_folder_queries import AgentFolderQueries


class Folders:
    """Knows the open files of agents; what is seen of one is its id."""

    def __init__(self, **files: list[str]) -> None:
        self.files = files
        self.seen: list[tuple[str, int]] = []
        self.statements = 0

    async def files_of_agents(self, org: str, agent_ids: list[str]) -> list[Any]:
        assert org == "org-1"
        fields = ("name", "folder_id", "start_line", "end_line", "lines", "last_accessed_at")
        return [
            (agent, {"file_id": file, "is_open": True, **dict.fromkeys(fields, None)})
            for agent in agent_ids
            for file in self.files[agent]
        ]

    async def visible_contents(
        self, org: str, wanted: list[tuple[dict[str, Any], int]]
    ) -> list[str]:
        self.statements += 1
        self.seen += [(file["file_id"], chars_max) for file, chars_max in wanted]
        return [str(file["file_id"]) for file, _ in wanted]


async def values(folders: Folders, *agents: str) -> list[list[str]]:
    """The values of the file blocks of these agents."""
    document = ", ".join(f"\x02{agent} 300\x02" for agent in agents)
    queries = cast(AgentFolderQueries, folders)
    body = await with_file_blocks(queries, "org-1", f"[{document}]".encode())
    return [[block["value"] for block in blocks] for blocks in json.loads(body)]


async def test_a_file_is_looked_up_once_however_many_agents_see_it_alike() -> None:
    folders = Folders(ada=["file-1", "file-2"], bob=["file-1"], eve=[])
    assert await values(folders, "ada", "bob", "eve") == [["file-1", "file-2"], ["file-1"], []]
    assert folders.seen == [("file-1", 300), ("file-2", 300)]


async def test_the_values_of_one_answer_have_a_limit_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(agent_file_blocks, "VALUES_CHARS_MAX", 10)
    folders = Folders(ada=["file-1", "file-2"], bob=["file-3"])
    assert await values(folders, "ada", "bob") == [["file-1", "file-2"], [NOT_SHOWN]]


async def test_many_open_files_are_looked_up_by_few_statements(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {
        f"agent-{number}": [f"file-{number}-{part}" for part in range(5)] for number in range(1_000)
    }
    folders = Folders(**names)
    assert await values(folders, *names) == [*names.values()]
    assert folders.statements == 5_000 / agent_file_blocks.FILES_AT_ONCE_MAX

    monkeypatch.setattr(agent_file_blocks, "VALUES_CHARS_MAX", 1_000)
    folders = Folders(**names)
    assert [NOT_SHOWN] * 5 in await values(folders, *names)
    assert len(folders.seen) < 200, "what has no room is not read"


async def test_a_document_without_places_stays_as_it_is() -> None:
    written = b'{"value": "\\u0002ada 300\\u0002"}'
    assert await with_file_blocks(cast(AgentFolderQueries, Folders()), "org-1", written) == written
