"""A name or an id, as people type it, to what it names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from cli.server import Server

SUGGESTIONS_FROM = 1000  # how many names are looked through for one that is meant


@dataclass(frozen=True)
class Noun:
    """How things of a kind are found."""

    word: str  # agent
    path: str  # /v1/agents
    prefix: str  # how its ids begin: agent-
    field: str = "name"  # what its name is called
    query: str | None = "name"  # the filter of the list by name; None where there is none


AGENT = Noun("agent", "/v1/agents/", "agent-")
BLOCK = Noun("block", "/v1/blocks/", "block-", field="label", query="label")
TOOL = Noun("tool", "/v1/tools/", "tool-")
FOLDER = Noun("folder", "/v1/folders/", "source-")
ARCHIVE = Noun("archive", "/v1/archives/", "archive-")


def find(server: Server, noun: Noun, name_or_id: str) -> Any:
    """The document of what has that id, or that name alone. Raises CommandError."""
    if name_or_id.startswith(noun.prefix):
        return server.get(f"{noun.path.rstrip('/')}/{name_or_id}")
    named = [
        entry for entry in _listed(server, noun, name_or_id) if entry[noun.field] == name_or_id
    ]
    if len(named) == 1:
        return named[0]
    if named:
        ids = ", ".join(entry["id"] for entry in named)
        raise CommandError(
            f"{len(named)} {noun.word}s are called '{name_or_id}': say which by its id ({ids})",
            ExitCode.REFUSED,
        )
    names = [entry[noun.field] or "" for entry in server.pages(noun.path, limit=SUGGESTIONS_FROM)]
    close = difflib.get_close_matches(name_or_id, names, n=1)
    hint = f": did you mean '{close[0]}'?" if close else ""
    raise CommandError(f"There is no {noun.word} '{name_or_id}'{hint}", ExitCode.NOT_FOUND)


def id_of(server: Server, noun: Noun, name_or_id: str) -> str:
    """The id alone; one that is given as an id is not asked for."""
    if name_or_id.startswith(noun.prefix):
        return name_or_id
    return str(find(server, noun, name_or_id)["id"])


def _listed(server: Server, noun: Noun, name: str) -> list[Any]:
    query = {noun.query: name} if noun.query else {}
    return list(server.pages(noun.path, limit=None if noun.query is None else 100, **query))
