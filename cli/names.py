"""A name or an id, as people type it, to what it names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from cli.server import Server

NAMESAKES_MAX = 100
IDS_SHOWN_MAX = 10
SUGGESTIONS_FROM = 1000  # how many names are looked through for one that is meant


UUID = re.compile("-".join(f"[0-9a-f]{{{digits}}}" for digits in (8, 4, 4, 4, 12)))


@dataclass(frozen=True)
class Noun:
    """The way to find things of a kind."""

    word: str  # agent
    path: str  # /v1/agents
    prefix: str  # how its ids begin: agent-
    field: str = "name"  # what its name is called
    query: str | None = "name"  # the filter of the list by name; None where there is none
    include: tuple[str, ...] = ()  # what its document has only if it is asked for
    by_id: bool = True  # whether there is a route for one by its id alone
    inside: str | None = None  # the field that has the list, where its answer is an object
    is_whole: bool = False  # whether the list comes without pages
    shows_hidden: str | None = None  # the parameter by which the list leaves nothing out

    def is_id(self, text: str) -> bool:
        """Whether this is an id: a name may begin in the same way."""
        return text.startswith(self.prefix) and bool(UUID.fullmatch(text.removeprefix(self.prefix)))


AGENT = Noun(
    "agent",
    "/v1/agents/",
    "agent-",
    include=(
        *("agent.blocks", "agent.tools", "agent.tags", "agent.sources", "agent.identities"),
        *("agent.pending_approval", "agent.managed_group"),
    ),
    shows_hidden="show_hidden_agents",
)
BLOCK = Noun("block", "/v1/blocks/", "block-", field="label", query="label")
TOOL = Noun("tool", "/v1/tools/", "tool-")
FOLDER = Noun("folder", "/v1/folders/", "source-")
ARCHIVE = Noun("archive", "/v1/archives/", "archive-")
SCHEDULE = Noun("schedule", "/v1/schedules", "schedule-", by_id=False)
GROUP = Noun("group", "/v1/agent-groups", "group-")
MCP_SERVER = Noun(
    "server", "/v1/mcp-servers/", "mcp_server-", field="server_name", query=None, is_whole=True
)
TEMPLATE = Noun("template", "/v1/templates", "template-", by_id=False, inside="templates")
IDENTITY = Noun(
    "identity", "/v1/identities", "identity-", field="identifier_key", query="identifier_key"
)
PROJECT = Noun("project", "/v1/projects", "project-", inside="projects")


def entries(server: Server, noun: Noun, limit: int | None = None, **query: Any) -> Iterator[Any]:
    """All there are of a kind, or the newest `limit` of them."""
    if noun.is_whole:
        return iter(server.get(noun.path, **query)[:limit])
    if noun.inside:
        return server.numbered_pages(noun.path, noun.inside, limit, **query)
    return server.pages(noun.path, limit, **query)


def find(server: Server, noun: Noun, name_or_id: str) -> Any:
    """The whole document of what has that id, or that name alone. Raises CommandError.

    Lists leave fields out, so what is found by its name is asked for by its id.
    """
    if noun.by_id:
        path = f"{noun.path.rstrip('/')}/{id_of(server, noun, name_or_id)}"
        return server.get(path, include=list(noun.include) or None)
    if not noun.is_id(name_or_id):
        return _named(server, noun, name_or_id)
    for entry in entries(server, noun):
        if entry["id"] == name_or_id:
            return entry
    raise CommandError(f"There is no {noun.word} {name_or_id}", ExitCode.NOT_FOUND)


def id_of(server: Server, noun: Noun, name_or_id: str) -> str:
    """The id alone; one that is given as an id is not asked for. Raises CommandError."""
    if noun.is_id(name_or_id):
        return name_or_id
    return str(_named(server, noun, name_or_id)["id"])


def _named(server: Server, noun: Noun, name_or_id: str) -> Any:
    """The item of the list with that name."""
    named = [
        entry for entry in _listed(server, noun, name_or_id) if entry[noun.field] == name_or_id
    ]
    if len(named) == 1:
        return named[0]
    if named:
        ids = ", ".join(entry["id"] for entry in named[:IDS_SHOWN_MAX])
        more = ", ..." if len(named) > IDS_SHOWN_MAX else ""
        number = f"At least {len(named)}" if len(named) == NAMESAKES_MAX else len(named)
        raise CommandError(
            f"{number} {noun.word}s are called '{name_or_id}': say which by its id ({ids}{more})",
            ExitCode.REFUSED,
        )
    names = [entry[noun.field] or "" for entry in entries(server, noun, SUGGESTIONS_FROM)]
    close = difflib.get_close_matches(name_or_id, names, n=1)
    hint = f": did you mean '{close[0]}'?" if close else ""
    raise CommandError(f"There is no {noun.word} '{name_or_id}'{hint}", ExitCode.NOT_FOUND)


def _listed(server: Server, noun: Noun, name: str) -> list[Any]:
    query: dict[str, Any] = {noun.query: name} if noun.query else {}
    if noun.shows_hidden:
        query[noun.shows_hidden] = True
    return list(entries(server, noun, None if noun.query is None else NAMESAKES_MAX, **query))
