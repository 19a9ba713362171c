"""What an agent sees of its open files is put into the place that a statement leaves for it."""

from __future__ import annotations

from typing import Any, cast

from services.api.adapters import agent_file_blocks
from services.api.adapters.agent_file_blocks import MARK, NOT_SHOWN, with_file_values
from services.api.adapters.agent_folder_queries import AgentFolderQueries


class Folders:
    """Says of a file what it was asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def visible_content(self, org: str, file: dict[str, Any], chars_max: int) -> str:
        self.asked.append((org, file, chars_max))
        return f'"{file["file_id"]}"'


def place(file_id: str, view: str = "  7") -> str:
    return f'{{"value": {MARK}{file_id} {view} 300{MARK}}}'


async def filled(folders: Folders, document: str) -> str:
    queries = cast(AgentFolderQueries, folders)
    return (await with_file_values(queries, "org-1", document.encode())).decode()


async def test_a_file_is_asked_for_once_however_many_agents_see_it_alike() -> None:
    folders = Folders()
    document = f"[{place('file-1')}, {place('file-2', '3 4 7')}, {place('file-1')}]"
    one, two = r'{"value": "\"file-1\""}', r'{"value": "\"file-2\""}'
    assert await filled(folders, document) == f"[{one}, {two}, {one}]"
    whole = {"file_id": "file-1", "start_line": None, "end_line": None, "lines": 7}
    lines = {"file_id": "file-2", "start_line": 3, "end_line": 4, "lines": 7}
    assert folders.asked == [("org-1", whole, 300), ("org-1", lines, 300)]


async def test_the_values_of_one_answer_have_a_limit_together(monkeypatch: Any) -> None:
    monkeypatch.setattr(agent_file_blocks, "VALUES_CHARS_MAX", 10)
    folders = Folders()
    shown = await filled(folders, "".join(place(f"file-{n}") for n in range(1, 5)))
    assert shown.count(NOT_SHOWN) == 2
    assert len(folders.asked) == 2


async def test_a_document_without_places_stays_as_it_is() -> None:
    folders = Folders()
    assert await filled(folders, '{"value": "\\u0002file-1   300\\u0002"}') == (
        '{"value": "\\u0002file-1   300\\u0002"}'
    )
    assert folders.asked == []
