"""Folders of agents: given what happened, when a command comes, then events or a refusal."""

from __future__ import annotations

from typing import Any

from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE
from libs.contracts.memory.agent_folders import (
    FOLDERS_ATTACHED_MAX,
    FilesClosed,
    FilesOpened,
    FileView,
    FolderAttached,
    FolderDetached,
    OpenedFile,
    agent_folders_id,
)
from services.memory.domain.agent_folders import AgentFolders
from tests.contract.agent_folder_examples import AGENT
from tests.contract.file_examples import FOLDER
from tests.unit.given import NOW, fact, given

ID = agent_folders_id(AGENT)
ATTACHED = fact(FolderAttached, agent_id=AGENT, folder_id=FOLDER)
FOLDERS = dict.fromkeys("abcde", FOLDER)


def of(name: str, first: int | None = None, last: int | None = None) -> OpenedFile:
    return OpenedFile(file_id=name, first_line=first, last_line=last, folder_id=FOLDER, at=NOW)


def opened(*names: str, closed: tuple[str, ...] = ()) -> Any:
    files = [of(name) for name in names]
    return fact(FilesOpened, agent_id=AGENT, opened=files, closed=[*closed])


def opening(*views: FileView | str, files_max: int = 3, **more: Any) -> Any:
    asked = [FileView(file_id=view) if isinstance(view, str) else view for view in views]
    return lambda agent: agent.open(AGENT, asked, FOLDERS, files_max=files_max, at=NOW, **more)


def test_a_folder_is_attached_once() -> None:
    attach = lambda agent: agent.attach(AGENT, FOLDER, at=NOW)  # noqa: E731
    given(AgentFolders, ID).when(attach).then(ATTACHED)
    given(AgentFolders, ID, ATTACHED).when(attach).then_nothing()


def test_an_agent_has_a_bounded_number_of_folders() -> None:
    past = [
        fact(FolderAttached, agent_id=AGENT, folder_id=f"source-{n}")
        for n in range(FOLDERS_ATTACHED_MAX)
    ]
    given(AgentFolders, ID, *past).when(
        lambda agent: agent.attach(AGENT, FOLDER, at=NOW)
    ).then_refused(CONFLICT, "detach one first")


def test_with_a_folder_its_open_files_go() -> None:
    detach = lambda agent: agent.detach(AGENT, FOLDER, at=NOW)  # noqa: E731
    past = given(AgentFolders, ID, ATTACHED, opened("a", "b"))
    past.when(detach).then(
        fact(FolderDetached, agent_id=AGENT, folder_id=FOLDER, closed=["a", "b"])
    )
    assert past.aggregate.state.opened == {}
    given(AgentFolders, ID).when(detach).then_refused(NOT_FOUND, "not attached")


def test_the_file_used_longest_ago_makes_room() -> None:
    past = given(AgentFolders, ID, ATTACHED, opened("a", "b", "c"), opened("a"))
    past.when(opening("d")).then(opened("d", closed=("b",)))
    assert [*past.aggregate.state.opened] == ["c", "a", "d"]


def test_files_of_a_folder_are_shown_as_far_as_may_be() -> None:
    show = lambda agent: agent.show(AGENT, FOLDER, ["c", "d", "e"], files_max=2, at=NOW)  # noqa: E731
    given(AgentFolders, ID, ATTACHED, opened("a", "c")).when(show).then(opened("d", closed=("a",)))
    given(AgentFolders, ID, ATTACHED, opened("c", "d")).when(show).then_nothing()
    given(AgentFolders, ID).when(show).then_nothing()
    none = lambda agent: agent.show(AGENT, FOLDER, ["c"], files_max=0, at=NOW)  # noqa: E731
    given(AgentFolders, ID, ATTACHED, opened("a")).when(none).then_nothing()


def test_other_lines_of_a_file_take_no_more_room() -> None:
    past = given(AgentFolders, ID, ATTACHED, opened("a", "b", "c"))
    view = FileView(file_id="b", first_line=3, last_line=9)
    past.when(opening(view)).then(
        fact(FilesOpened, agent_id=AGENT, opened=[of("b", 3, 9)], closed=[])
    )
    assert [*past.aggregate.state.opened] == ["a", "c", "b"]


def test_the_others_are_closed_if_so_asked() -> None:
    given(AgentFolders, ID, ATTACHED, opened("a", "b")).when(opening("c", close_others=True)).then(
        opened("c", closed=("a", "b"))
    )


def test_a_smaller_limit_counts_from_the_next_file_on() -> None:
    given(AgentFolders, ID, ATTACHED, opened("a", "b", "c")).when(opening("d", files_max=1)).then(
        opened("d", closed=("a", "b", "c"))
    )


def test_what_cannot_be_opened_says_why() -> None:
    past = given(AgentFolders, ID, ATTACHED, opened("a"))
    past.when(opening("b", "c", "d", "e")).then_refused(UNPROCESSABLE, "at most 3")
    past.when(opening("nope")).then_refused(NOT_FOUND, "'nope' is in no folder")
    given(AgentFolders, ID).when(opening("a")).then_refused(NOT_FOUND, "in no folder")


def test_files_are_closed_by_name_or_all() -> None:
    past = given(AgentFolders, ID, ATTACHED, opened("a", "b", "c"))
    past.when(lambda agent: agent.close(AGENT, ["b", "nope"], at=NOW)).then(
        fact(FilesClosed, agent_id=AGENT, closed=["b"])
    )
    past = given(AgentFolders, ID, ATTACHED, opened("a", "b"))
    past.when(lambda agent: agent.close(AGENT, [], at=NOW)).then(
        fact(FilesClosed, agent_id=AGENT, closed=["a", "b"])
    )
    past.when(lambda agent: agent.close(AGENT, [], at=NOW)).then_nothing()
