"""`heeler identities`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli.commands import noun
from cli.names import IDENTITY
from cli.output import columns, show
from cli.server import server
from cli.verbs import add_delete, add_get, add_list

app = noun("Identities: whom agents and blocks are about.")

COLUMNS = columns(key="identifier_key", id="id", name="name", type="identity_type")

add_list(app, IDENTITY, COLUMNS, "List identities, the newest first.")
add_get(app, IDENTITY, {**COLUMNS, "properties": "properties"}, "Show an identity, by key or id.")


@app.command()
def create(
    key: Annotated[str, Argument(help="Your own key for it, as the id of a user.")],
    name: Annotated[str | None, Option(help="What it is called; the key without.")] = None,
    kind: Annotated[str, Option("--type", help="user, org or other.")] = "user",
) -> None:
    """Make an identity, which nothing has yet."""
    fields = {"identifier_key": key, "name": name or key, "identity_type": kind}
    show(server().post(IDENTITY.path, fields), COLUMNS)


add_delete(app, IDENTITY, "Delete an identity; agents and blocks that had it stay.")
