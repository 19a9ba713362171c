"""The verbs that all nouns have alike: `list`, `get`, `delete`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import Commands
from cli.completion import names_of
from cli.names import AGENT, Noun, entries, find, id_of
from cli.output import Column, confirm, say, show, show_rows
from cli.server import server

LIST_ENTRIES = 100  # how many a list shows, unless --limit says

Yes = Annotated[bool, Option("--yes", "-y", help="Do not ask.")]
Limit = Annotated[int, Option(help="At most so many.", min=1)]


def name_or_id(noun: Noun) -> Any:
    """The argument that names an agent, a tool, ...: `Annotated[str, name_or_id(AGENT)]`."""
    return Argument(
        metavar=noun.word.upper(), help="Its name or id.", autocompletion=names_of(noun)
    )


def add_list(app: Commands, noun: Noun, columns: Mapping[str, Column], text: str) -> None:
    """`list`, of all that there are, without a filter."""

    def list_(limit: Limit = LIST_ENTRIES) -> None:
        show_rows(entries(server(), noun, limit), columns)

    app.command("list", help=text)(list_)


def add_get(app: Commands, noun: Noun, fields: Mapping[str, Column], text: str) -> None:
    """`get`: the document of one."""

    def get(name: str) -> None:
        show(find(server(), noun, name), fields)

    get.__annotations__["name"] = Annotated[str, name_or_id(noun)]
    app.command(help=text)(get)


def add_attachment(app: Commands, noun: Noun, verb: str, text: str, said: str) -> None:
    """`attach` or `detach`: what an agent has of a kind. `said` is printed when it is done."""
    kind = noun.path.rstrip("/").rpartition("/")[2]

    def change(name: str, agent: Annotated[str, name_or_id(AGENT)]) -> None:
        agent_id = id_of(server(), AGENT, agent)
        server().patch(f"/v1/agents/{agent_id}/{kind}/{verb}/{id_of(server(), noun, name)}")
        say(said.format(agent=agent, name=name))

    change.__annotations__["name"] = Annotated[str, name_or_id(noun)]
    app.command(verb, help=text)(change)


def add_delete(app: Commands, noun: Noun, text: str) -> None:
    """`delete` asks before. `text` says what goes with it."""

    def delete(name: str, yes: Yes = False) -> None:
        entry_id = id_of(server(), noun, name)
        confirm(f"Delete the {noun.word} {name}?", yes=yes)
        server().delete(f"{noun.path.rstrip('/')}/{entry_id}")
        say(f"Deleted {entry_id}.")

    delete.__annotations__["name"] = Annotated[str, name_or_id(noun)]
    app.command(help=text)(delete)
