"""`heeler files` against a server: each effect is read back."""

from __future__ import annotations

from pathlib import Path

import httpx

from cli.exit_codes import ExitCode
from cli.uploads import ReportedFile
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


def test_files_are_uploaded_shown_and_deleted(
    heeler_command: HeelerCommand, tmp_path: Path, http: httpx.Client
) -> None:
    folder = unique("docs")
    made = heeler_command.json("files", "create", folder, "--description", "Of cats")
    path = f"/v1/folders/{made['id']}"
    assert http.get(path).json()["description"] == "Of cats"
    cats, broken = tmp_path / "cats.txt", tmp_path / "broken.pdf"
    cats.write_text("Cats sleep a lot.\n" * 3)
    broken.write_bytes(b"no PDF at all")
    ended = heeler_command.run("files", "upload", folder, str(cats), str(broken), "--json")
    assert (ended.code, "broken.pdf" in ended.err) == (ExitCode.FAILED, True)
    added, unreadable = ended.json
    assert (added["processing_status"], added["file_size"]) == ("completed", 54)
    assert unreadable["processing_status"] == "error"
    assert unreadable["error_message"] in heeler_command("files", "get", folder, "broken.pdf").out
    text = heeler_command("files", "get", folder, "cats.txt", "--content").out
    assert text.rstrip("\n") == cats.read_text().rstrip("\n")
    assert folder in heeler_command("files", "list").out

    twice = heeler_command.run("files", "upload", folder, str(cats), "--if-there", "error")
    assert twice.code == ExitCode.REFUSED
    gone = heeler_command.run("files", "upload", folder, str(tmp_path / "gone.txt"))
    assert gone.code == ExitCode.NOT_FOUND

    heeler_command("files", "delete", folder, "cats.txt", "--yes")
    listed = heeler_command.json("files", "list", folder)
    assert [file["id"] for file in listed if file["id"] == added["id"]] == []
    heeler_command("files", "delete", folder, "--yes")
    assert http.get(path).status_code == 404


def test_a_folder_is_attached_and_detached(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    agent, folder = new_agent(name=unique("ada")), unique("docs")
    heeler_command("files", "create", folder)
    heeler_command("files", "attach", folder, agent.name)
    listed = heeler_command.json("files", "list", "--agent", agent.name)
    assert [entry["name"] for entry in listed] == [folder]
    heeler_command("files", "detach", folder, agent.name)
    assert heeler_command.json("files", "list", "--agent", agent.name) == []
    heeler_command("files", "delete", folder, "--yes")


def test_an_upload_is_read_in_pieces_and_says_how_far_it_is(tmp_path: Path) -> None:
    file, told = tmp_path / "large.txt", list[int]()
    file.write_bytes(b"x" * 1_000)
    with (
        ReportedFile(file, told.append) as content,
        httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client,
    ):
        answer = client.post("http://localhost/", files={"file": ("large.txt", content)})
    assert answer.status_code == 200
    assert told[-1] == 1_000
