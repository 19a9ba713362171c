"""`heeler projects`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli.commands import noun
from cli.names import AGENT, PROJECT, find, id_of
from cli.output import columns, confirm, say, show
from cli.server import given, server
from cli.verbs import Yes, add_get, add_list, name_or_id

app = noun("Projects: agents that belong together.")

Project = Annotated[str, name_or_id(PROJECT)]
Agent = Annotated[str, name_or_id(AGENT)]
COLUMNS = columns("name", "id", "description", "tags")

add_list(app, PROJECT, COLUMNS, "List projects, the newest first.")
add_get(app, PROJECT, COLUMNS, "Show a project.")


@app.command()
def create(
    name: Annotated[str, Argument(help="What it is called.")],
    description: Annotated[str | None, Option(help="What it is for.")] = None,
    tag: Annotated[list[str] | None, Option(help="May be repeated.")] = None,
) -> None:
    """Make a project, without agents."""
    fields = {"name": name, "description": description, "tags": tag}
    show(server().post(PROJECT.path, given(fields)), COLUMNS)


@app.command()
def add(project: Project, agent: Agent) -> None:
    """Put an agent into a project."""
    body = {"agent_ids": [id_of(server(), AGENT, agent)]}
    server().post(f"{PROJECT.path}/{id_of(server(), PROJECT, project)}/agents", body)
    say(f"{agent} is in {project}.")


@app.command()
def remove(project: Project, agent: Agent) -> None:
    """Take an agent out of a project."""
    path = f"{PROJECT.path}/{id_of(server(), PROJECT, project)}/agents"
    server().delete(f"{path}/{id_of(server(), AGENT, agent)}")
    say(f"{agent} is in {project} no more.")


@app.command()
def delete(
    project: Project,
    agents: Annotated[
        bool, Option("--agents", help="Also delete its agents that are in no other project.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Delete a project; its agents stay, without --agents."""
    found = find(server(), PROJECT, project)
    also = " and its agents" if agents else ""
    confirm(f"Delete the project {found['name']}{also}?", yes=yes)
    asked = {"cascade": True, "confirm_name": found["name"]} if agents else {}
    deleted = server().delete(f"{PROJECT.path}/{found['id']}", **asked)
    count = deleted.get("deleted_agents") or 0
    say(f"Deleted {found['id']}{f' and {count} agents' if agents else ''}.")
