"""Files on the way from upload to search: after crashes, in outages, beside others."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from libs.contracts.memory.agent_folders import AttachFolder, CloseFiles
from libs.contracts.memory.files import DeleteFile
from libs.contracts.memory.folders import CreateFolder, DeleteFolder
from services.memory.engine import file_processing
from services.memory.engine.file_processing import (
    FILES_OF_ORG_AT_ONCE_MAX,
)
from tests.contract.file_examples import FILE, FOLDER
from tests.leased_work import finish
from tests.unit.memory.file_world import LONG, World


@pytest.fixture
def world() -> World:
    return World()


async def test_a_file_becomes_chunks_in_its_order(world: World) -> None:
    await world.upload(LONG)
    await world.sweep()

    row = world.file()
    assert (row["status"], row["lines"], row["chars"]) == ("completed", 4_000, len(LONG))
    assert row["total_chunks"] == row["chunks_embedded"] == len(world.passages()) > 100
    shown = "\n".join(str(passage["text"]) for passage in world.passages())
    assert all(f"Line {number} " in shown for number in range(4_000))
    assert await world.texts.lines("org-1", FILE, 3_000, 3_001) == [
        "Line 2999 says what it says.",
        "Line 3000 says what it says.",
    ]


async def test_the_agents_that_see_its_folder_have_a_new_file_open_before_it_is_completed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_processing, "AGENTS_SHOWN_AT_ONCE", 3)
    agents = [f"agent-{n}" for n in range(8)]
    await world.tell(CreateFolder(folder_id=f"{FOLDER}org-1", name="f"))
    for agent_id in agents:
        world.agent(agent_id, files_max=0 if agent_id == "agent-7" else 2)
        await world.tell(AttachFolder(agent_id=agent_id, folder_id=f"{FOLDER}org-1", files_max=2))
    for n in range(3):
        await world.upload(b"some words\n", f"file-{n}")
        await world.sweep()
        assert world.file(f"file-{n}")["status"] == "completed"
    assert world.opened_files() == {agent: {"file-1", "file-2"} for agent in agents[:7]}
    world.embedder.down = True
    await world.upload(b"some words\n", "file-3")
    await world.sweep()
    assert world.opened_files()["agent-0"] == {"file-2", "file-3"}, "its text is there"
    await world.tell(CloseFiles(agent_id="agent-0", file_ids=["file-3"]))
    world.clock.seconds += 60
    await world.sweep()
    assert world.opened_files()["agent-0"] == {"file-2"}, "it is shown once"


async def test_a_process_that_dies_while_agents_are_shown_a_file_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_processing, "AGENTS_SHOWN_AT_ONCE", 1)
    await world.tell(CreateFolder(folder_id=f"{FOLDER}org-1", name="f"))
    for n in range(4):
        world.agent(f"agent-{n}", files_max=5)
        await world.tell(
            AttachFolder(agent_id=f"agent-{n}", folder_id=f"{FOLDER}org-1", files_max=5)
        )
    await world.upload(b"some words\n")
    commits, show_to = 0, world.processing.show_to

    async def dies(*asked: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 3:
            raise asyncio.CancelledError
        await show_to(*asked)

    monkeypatch.setattr(world.processing, "show_to", dies)
    await world.sweep()
    assert len(world.opened_files()) == 2
    world.clock.seconds += 60
    world.start()
    await world.sweep()
    assert world.opened_files() == {f"agent-{n}": {FILE} for n in range(4)}
    assert world.file()["status"] == "completed"


async def test_a_file_that_is_deleted_while_it_is_shown_is_nothing_to_anybody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.tell(CreateFolder(folder_id=f"{FOLDER}org-1", name="f"))
    world.agent("agent-0", files_max=5)
    await world.tell(AttachFolder(agent_id="agent-0", folder_id=f"{FOLDER}org-1", files_max=5))
    await world.upload(b"some words\n")
    show = world.processing.show

    async def deleted_first(*asked: Any) -> None:
        await world.tell(DeleteFile(file_id=FILE, folder_id=f"{FOLDER}org-1"))
        await show(*asked)

    monkeypatch.setattr(world.processing, "show", deleted_first)
    await world.sweep()
    assert world.opened_files() == {}
    assert world.passages() == []


async def test_a_process_that_dies_embeds_nothing_twice(world: World) -> None:
    """After each batch the next process goes on where the last one stood."""
    await world.upload(LONG)
    deaths = 0
    while world.file()["status"] not in ("completed", "error"):
        world.embedder.dies_at = world.embedder.calls + 1
        await world.sweep()
        world.clock.seconds += 60
        world.start()
        deaths += 1

    row = world.file()
    assert row["status"] == "completed"
    assert deaths > 3
    assert world.embedder.texts == row["total_chunks"] == len(world.passages())


async def test_a_model_that_is_down_is_waited_for(world: World) -> None:
    world.embedder.down = True
    await world.upload(b"some words\n")
    for _ in range(3):
        await world.sweep()
        world.clock.seconds += 1
    row = world.file()
    assert row["status"] == "pending"
    assert row["error_message"] == "The model does not answer: is it started?"

    world.embedder.down = False
    world.clock.seconds += 60
    await world.sweep()
    assert (world.file()["status"], world.file()["error_message"]) == ("completed", None)


async def test_a_model_that_stays_down_is_given_up(world: World) -> None:
    world.embedder.down = True
    await world.upload(b"some words\n")
    for _ in range(100):
        await world.sweep()
        world.clock.seconds += 700

    assert world.file()["status"] == "error"
    assert "upload it again" in world.file()["error_message"]


@pytest.mark.parametrize(("data", "words"), [(b"bad", "make it good"), (None, "upload it again")])
async def test_what_cannot_be_read_ends_with_a_reason(
    world: World, data: bytes | None, words: str
) -> None:
    await world.upload(data or b"good")
    if data is None:
        del world.uploads[FILE]
    await world.sweep()

    assert world.file()["status"] == "error"
    assert words in world.file()["error_message"]


@pytest.mark.parametrize("data", [b"good", b"bad"], ids=["readable", "unreadable"])
async def test_a_file_that_is_deleted_while_it_is_read_leaves_nothing(
    world: World, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def delete() -> None:
        await world.tell(DeleteFile(file_id=FILE, folder_id=f"{FOLDER}org-1"))

    monkeypatch.setattr(world.parser, "meanwhile", delete)
    await world.upload(data)
    await world.processing.sweep()
    await asyncio.gather(*world.processing.tasks.values())

    assert world.schema.rows("files") == []
    assert world.passages() == []
    assert FILE not in world.schema.leases


async def test_an_organisation_with_many_files_leaves_room_for_others(world: World) -> None:
    gate = asyncio.Event()
    world.parser.meanwhile = gate.wait  # type: ignore[method-assign, assignment]
    for number in range(FILES_OF_ORG_AT_ONCE_MAX + 3):
        await world.upload(b"words", f"{FILE}{number}")
    await world.processing.sweep()
    assert len(world.processing.tasks) == FILES_OF_ORG_AT_ONCE_MAX
    assert world.processing.has_room("org-2")
    assert not world.processing.has_room("org-1")
    gate.set()
    await finish(world.processing)
    assert {row["status"] for row in world.schema.rows("files")} == {"completed"}
    assert world.processing.places
    assert not world.processing.places.of_organisation, "nothing is kept of who has no file"


async def test_a_file_that_waits_has_the_place_of_one_that_is_done(world: World) -> None:
    files = [f"{FILE}{number}" for number in range(FILES_OF_ORG_AT_ONCE_MAX * 5)]
    for file_id in files:
        await world.upload(b"words", file_id)
    await world.processing.sweep()
    await finish(world.processing)
    assert {world.file(file)["status"] for file in files} == {"completed"}, "in one sweep"


async def test_the_files_of_a_deleted_folder_go_with_it(world: World) -> None:
    await world.upload(LONG)
    await world.upload(b"words", f"{FILE}2")
    await world.sweep()
    await world.tell(DeleteFolder(folder_id=f"{FOLDER}org-1"))
    world.files_cleanup.look_at_all()
    world.texts_cleanup.look_at_all()
    await world.sweep()

    assert world.schema.rows("files") == []
    assert world.passages() == []


async def test_a_file_whose_folder_is_gone_is_removed_by_one_decision(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.upload(b"words")
    await world.tell(DeleteFolder(folder_id=f"{FOLDER}org-1"))
    with caplog.at_level("INFO"):
        await world.processing.sweep()
        await finish(world.processing)

    assert (world.schema.rows("files"), world.schema.leases) == ([], {})
    assert "goes on elsewhere" not in caplog.text, "so its place is the next one's at once"


async def test_a_copy_of_an_upload_waits_for_who_decides_about_its_file(world: World) -> None:
    """A process that stood still has both: a file that is there by now, and the command for it.
    Here the copy says another name, since what this process knows of names is not old."""
    await world.upload(b"some words\n")
    async with world.processing.ports.locks.hold(FILE):
        copy = asyncio.create_task(world.upload(b"some words\n", name="other.txt"))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not copy.done()
    with pytest.raises(AssertionError, match="exists already"):
        await copy


async def test_a_try_of_an_upload_that_began_earlier_replaces_no_file_of_a_later_one(
    world: World,
) -> None:
    begun = [world.clock.now() + timedelta(seconds=seconds) for seconds in range(3)]
    for number, file_id in ((0, "file-0"), (2, "file-2")):
        replaced = await world.upload(
            b"words\n", file_id, name="a.txt", duplicates="replace", begun_at=begun[number]
        )
        assert replaced.result == {"file_id": file_id, "skipped": False}
    late = await world.upload(
        b"words\n", "file-1", name="a.txt", duplicates="replace", begun_at=begun[1]
    )
    assert late.result == {"file_id": "file-2", "skipped": True}
    assert [(row["id"], row["name"]) for row in world.schema.rows("files")] == [("file-2", "a.txt")]
    unknown = await world.upload(b"words\n", "file-3", name="a.txt", duplicates="replace")
    assert unknown.result["skipped"] is False, "of an older api nobody knows when it began"


async def test_a_copy_of_an_upload_that_replaces_does_not_replace_itself(world: World) -> None:
    await world.upload(b"some words\n", duplicates="replace")
    with pytest.raises(AssertionError, match="exists already"):
        await world.upload(b"some words\n", duplicates="replace")
    await world.sweep()
    assert world.file()["status"] == "completed"
