"""`heeler files`: folders, and the files in them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.names import AGENT, FOLDER, Noun, find, id_of
from cli.output import columns, confirm, progress, say, show, show_rows, show_text
from cli.server import given, server
from cli.verbs import LIST_ENTRIES, Limit, Yes, add_attachment, name_or_id

app = noun("Folders and files that agents open and search.")

POLL_SECONDS = 0.5
ENDED = ("completed", "error")

Folder = Annotated[str, name_or_id(FOLDER)]

FOLDER_FIELDS = columns(
    "name",
    "id",
    "description",
    embedding=lambda folder: (folder.get("embedding_config") or {}).get("handle"),
    created="created_at",
)
FILE_COLUMNS = columns(name="file_name") | columns("id", status="processing_status")
FILE_COLUMNS |= columns(bytes="file_size", chunks="total_chunks", error="error_message")


def _files_of(folder_id: str) -> Noun:
    path = f"/v1/folders/{folder_id}/files"
    return Noun("file", path, "file-", field="file_name", query=None)


@app.command("list")
def list_(
    folder: Annotated[
        str | None, Argument(help="The files of this folder: its name or id.")
    ] = None,
    agent: Annotated[str | None, Option(help="The folders of this agent: its name or id.")] = None,
    limit: Limit = LIST_ENTRIES,
) -> None:
    """List folders, or the files of one."""
    if folder is not None:
        files = _files_of(id_of(server(), FOLDER, folder))
        show_rows(server().pages(files.path, limit=limit), FILE_COLUMNS)
        return
    path = f"/v1/agents/{id_of(server(), AGENT, agent)}/folders" if agent else FOLDER.path
    columns = {name: FOLDER_FIELDS[name] for name in ("name", "id", "description", "created")}
    show_rows(server().pages(path, limit=limit), columns)


@app.command()
def create(
    name: Annotated[str, Argument(help="What the folder is called.")],
    description: Annotated[str | None, Option(help="What is in it; agents read it.")] = None,
    embedding: Annotated[str | None, Option(help="The handle of an embedding model.")] = None,
) -> None:
    """Make a folder, which has no files yet."""
    fields = {"name": name, "description": description, "embedding": embedding}
    show(server().post(FOLDER.path, given(fields)), FOLDER_FIELDS)


@app.command()
def upload(
    folder: Folder,
    files: Annotated[list[Path], Argument(metavar="FILE...", help="What is put into it.")],
    if_there: Annotated[
        str, Option(help="With a name that is there: suffix, skip, replace or error.")
    ] = "suffix",
    wait: Annotated[bool, Option("--wait/--no-wait", help="Until agents can search it.")] = True,
) -> None:
    """Put files into a folder, and wait until they can be searched."""
    folder_id = id_of(server(), FOLDER, folder)
    if missing := [str(file) for file in files if not file.is_file()]:
        raise CommandError(f"There is no file {', '.join(missing)}", ExitCode.NOT_FOUND)
    added = [_upload(folder_id, file, if_there) for file in files]
    if wait:
        added = [_wait(folder_id, file) for file in added]
    show_rows(added, FILE_COLUMNS)
    if failed := [file["file_name"] for file in added if file["processing_status"] == "error"]:
        raise CommandError(f"Cannot be read: {', '.join(failed)}")


def _upload(folder_id: str, file: Path, if_there: str) -> Any:
    """Streamed: the file is read as it is sent, and not sent again by itself."""
    import httpx

    from cli.uploads import ReportedFile

    with (
        progress(f"Send {file.name}", file.stat().st_size) as update,
        ReportedFile(file, update) as content,
    ):
        return (
            server()
            .letta.with_options(max_retries=0)
            .post(
                f"/v1/folders/{folder_id}/upload",
                cast_to=object,
                files={"file": (file.name, content)},
                options={
                    "params": {"duplicate_handling": if_there},
                    "headers": {"Content-Type": "multipart/form-data"},
                    "timeout": httpx.Timeout(None),
                },
            )
        )


def _wait(folder_id: str, file: Any) -> Any:
    """The file once it can be searched, or cannot be read."""
    with progress(f"Read {file['file_name']}", 100) as update:
        while file["processing_status"] not in ENDED:
            time.sleep(POLL_SECONDS)
            file = server().get(f"{_files_of(folder_id).path}/{file['id']}")
            update(100 * (file["chunks_embedded"] or 0) // max(file["total_chunks"] or 0, 1))
    return file


@app.command()
def get(
    folder: Folder,
    file: Annotated[str | None, Argument(help="A file in it: its name or id.")] = None,
    content: Annotated[bool, Option("--content", help="Print the text of the file.")] = False,
) -> None:
    """Show a folder, or a file in it."""
    if file is None:
        show(find(server(), FOLDER, folder), FOLDER_FIELDS)
        return
    files = _files_of(id_of(server(), FOLDER, folder))
    if not content:
        show(find(server(), files, file), FILE_COLUMNS)
        return
    path = f"{files.path}/{id_of(server(), files, file)}"
    show_text(server().get(path, include_content=True)["content"] or "")


add_attachment(
    app,
    FOLDER,
    "attach",
    "Let an agent open and search the files of a folder.",
    "{agent} has the folder {name}.",
)
add_attachment(
    app, FOLDER, "detach", "Take a folder from an agent.", "{agent} has the folder {name} no more."
)


@app.command()
def delete(
    folder: Folder,
    file: Annotated[str | None, Argument(help="Only this file of it: its name or id.")] = None,
    yes: Yes = False,
) -> None:
    """Delete a folder with its files, or a file in it."""
    folder_id = id_of(server(), FOLDER, folder)
    if file is None:
        confirm(f"Delete the folder {folder} and its files?", yes=yes)
        server().delete(f"/v1/folders/{folder_id}")
        say(f"Deleted {folder_id}.")
        return
    file_id = id_of(server(), _files_of(folder_id), file)
    confirm(f"Delete the file {file}?", yes=yes)
    server().delete(f"/v1/folders/{folder_id}/{file_id}")
    say(f"Deleted {file_id}.")
