"""`heeler archives`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli.commands import noun
from cli.files_and_json import stdin_text
from cli.names import AGENT, ARCHIVE, id_of
from cli.options import OPTIONS
from cli.output import columns, confirm, say, show, show_rows
from cli.server import given, server
from cli.verbs import LIST_ENTRIES, Limit, Yes, add_attachment, add_delete, add_get, name_or_id

app = noun("Archives: long-term memory that agents search.")
passages = noun("The passages of archives: what they hold.")
app.add_typer(passages, name="passages")

Archive = Annotated[str, name_or_id(ARCHIVE)]
Tags = Annotated[list[str] | None, Option("--tag", help="May be repeated.")]

FIELDS = columns(
    "name",
    "id",
    "description",
    embedding=lambda archive: (archive.get("embedding_config") or {}).get("handle"),
    created="created_at",
)
COLUMNS = columns("name", "id", "description", created="created_at")


@app.command("list")
def list_(
    agent: Annotated[str | None, Option(help="Those of this agent: its name or id.")] = None,
    limit: Limit = LIST_ENTRIES,
) -> None:
    """List archives, the newest first."""
    asked = {"agent_id": id_of(server(), AGENT, agent) if agent else None}
    show_rows(server().pages(ARCHIVE.path, limit=limit, **asked), COLUMNS)


add_get(app, ARCHIVE, FIELDS, "Show an archive.")


@app.command()
def create(
    name: Annotated[str, Argument(help="What it is called.")],
    description: Annotated[str | None, Option(help="What is in it.")] = None,
    embedding: Annotated[str | None, Option(help="The handle of an embedding model.")] = None,
) -> None:
    """Make an archive, which has no passages yet."""
    fields = {"name": name, "description": description, "embedding": embedding}
    show(server().post(ARCHIVE.path, given(fields)), FIELDS)


@app.command("set")
def set_(
    archive: Archive,
    name: Annotated[str | None, Option(help="Another name.")] = None,
    description: Annotated[str | None, Option(help="What is in it.")] = None,
) -> None:
    """Change its name or description."""
    fields = given({"name": name, "description": description})
    show(server().patch(f"/v1/archives/{id_of(server(), ARCHIVE, archive)}", fields), FIELDS)


add_attachment(
    app,
    ARCHIVE,
    "attach",
    "Let an agent search and fill an archive.",
    "{agent} has the archive {name}.",
)
add_attachment(
    app,
    ARCHIVE,
    "detach",
    "Take an archive from an agent; its passages stay.",
    "{agent} has the archive {name} no more.",
)
add_delete(app, ARCHIVE, "Delete an archive with its passages.")


@passages.command()
def add(
    archive: Archive,
    text: Annotated[str, Argument(help="What is to be remembered; - is stdin.")],
    tag: Tags = None,
) -> None:
    """Put a text into an archive."""
    if text == "-":
        text = stdin_text()
    path = f"/v1/archives/{id_of(server(), ARCHIVE, archive)}/passages"
    passage = server().post(path, given({"text": text, "tags": tag or None}))
    show(passage, columns("id", "tags", "text"))


@passages.command()
def search(
    archive: Archive,
    query: Annotated[str, Argument(help="What is looked for, in words.")],
    tag: Tags = None,
    limit: Annotated[int, Option(help="At most so many.", min=1, max=100)] = 10,
) -> None:
    """Find passages by meaning and words, the best first."""
    body = {
        "archive_id": id_of(server(), ARCHIVE, archive),
        "query": query,
        "tags": tag or None,
        "limit": limit,
    }
    found = server().post("/v1/passages/search", given(body))
    if not OPTIONS.json:
        found = [{**each["passage"], "score": f"{each['score']:.3f}"} for each in found]
    show_rows(found, columns("id", "score", "tags", "text"))


@passages.command("delete")
def delete_passage(
    archive: Archive,
    passage: Annotated[str, Argument(help="Its id, as search shows it.")],
    yes: Yes = False,
) -> None:
    """Delete one passage of an archive."""
    archive_id = id_of(server(), ARCHIVE, archive)
    confirm(f"Delete the passage {passage}?", yes=yes)
    server().delete(f"/v1/archives/{archive_id}/passages/{passage}")
    say(f"Deleted {passage}.")
