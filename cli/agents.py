"""`heeler agents`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli.commands import noun
from cli.names import AGENT, find, id_of
from cli.output import Column, confirm, say, show, show_rows
from cli.server import server

app = noun("Agents: list, make, ask, change, compare and delete them.")

FIELDS: dict[str, Column] = {
    "name": "name",
    "id": "id",
    "model": "model",
    "description": "description",
    "tags": "tags",
    "blocks": lambda agent: [block["label"] for block in agent["blocks"]],
    "tools": lambda agent: [tool["name"] for tool in agent["tools"]],
    "system": "system",
}


@app.command("list")
def list_(
    tag: Annotated[list[str] | None, Option(help="Only with this tag; may be repeated.")] = None,
    limit: Annotated[int, Option(help="At most so many.", min=1)] = 100,
) -> None:
    """List agents, the newest first."""
    agents = server().pages("/v1/agents/", limit=limit, tags=tag)
    show_rows(agents, {"name": "name", "id": "id", "model": "model", "created": "created_at"})


@app.command()
def get(agent: Annotated[str, Argument(help="Its name or id.")]) -> None:
    """Show an agent with its blocks and tools."""
    show(find(server(), AGENT, agent), FIELDS)


@app.command()
def delete(
    agent: Annotated[str, Argument(help="Its name or id.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete an agent, its conversations and its own blocks."""
    agent_id = id_of(server(), AGENT, agent)
    confirm(f"Delete the agent {agent}?", yes=yes)
    server().delete(f"/v1/agents/{agent_id}")
    say(f"Deleted {agent_id}.")
