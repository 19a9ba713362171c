"""`heeler templates`: the templates that the server keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.create import OwnFolder
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import json_object, pairs, text_of
from cli.names import AGENT, TEMPLATE, find, id_of
from cli.output import columns, confirm, say, show, show_lines, show_rows
from cli.server import given, server
from cli.verbs import LIST_ENTRIES, Limit, Yes, add_get, add_list, name_or_id

app = noun("Templates on the server: agents as saved values, from which others are made.")

Template = Annotated[str, name_or_id(TEMPLATE)]
AgentFile = Annotated[Path | None, Option("--file", "-f", help="An agent file (.af).")]

COLUMNS = columns("name", "id", version="latest_version", project="project_slug")
COLUMNS |= columns("description", updated="updated_at")

add_list(app, TEMPLATE, COLUMNS, "List templates, the newest first.")
add_get(app, TEMPLATE, COLUMNS, "Show a template.")


@app.command()
def create(
    name: Annotated[str, Argument(help="What it is called.")],
    agent: Annotated[str | None, Option(help="The agent that it is made of: name or id.")] = None,
    file: AgentFile = None,
) -> None:
    """Save an agent (--agent) or an agent file (--file) as a new template, its version 1."""
    if (agent is None) == (file is None):
        raise CommandError("Say of what it is made: either --agent or --file", ExitCode.USAGE)
    if agent is not None:
        source: dict[str, Any] = {"type": "agent", "agent_id": id_of(server(), AGENT, agent)}
    else:
        source = {"type": "agent_file", "agent_file": _agent_file(file)}
    show(server().post(TEMPLATE.path, {"name": name, **source}), COLUMNS)


@app.command("set")
def set_(
    template: Template,
    file: AgentFile = None,
    description: Annotated[str | None, Option(help="What it is for.")] = None,
) -> None:
    """Change its working version (--file) or its description; `save` makes it a version."""
    found = find(server(), TEMPLATE, template)
    if file is None and description is None:
        raise CommandError("Say what to change: --file or --description", ExitCode.USAGE)
    if file is not None:
        server().put(f"{_path(found)}/agent-file", {"agent_file_json": _agent_file(file)})
    if description is not None:
        server().patch(f"{_path(found)}/description", {"description": description})
    show(find(server(), TEMPLATE, found["id"]), COLUMNS)


@app.command()
def save(
    template: Template,
    message: Annotated[str, Option("--message", "-m", help="What is new in it.")] = "",
    agents: Annotated[
        bool, Option("--agents", help="Agents of the template follow to the new version.")
    ] = False,
) -> None:
    """Save the working version under the next number."""
    body = {"message": message, "migrate_agents": agents}
    show(server().post(_path(find(server(), TEMPLATE, template)), body), COLUMNS)


@app.command()
def versions(template: Template, limit: Limit = LIST_ENTRIES) -> None:
    """List its saved versions, the newest first."""
    path = f"{_path(find(server(), TEMPLATE, template))}/versions"
    show_rows(
        server().numbered_pages(path, "versions", limit),
        columns("version", saved="created_at", latest="is_latest", message="message"),
    )


@app.command()
def rollback(
    template: Template, version: Annotated[str, Argument(help="A number, or `latest`.")]
) -> None:
    """Make a saved version the working one; what was not saved is saved before."""
    found = find(server(), TEMPLATE, template)
    server().post(f"{_path(found)}/rollback", {"version": version})
    say(f"The working version of {found['name']} is what version {version} says.")


@app.command()
def deploy(
    template: Annotated[str, Argument(help="NAME, NAME:VERSION or NAME:current.")],
    name: Annotated[str | None, Option(help="What the agent is called.")] = None,
    variable: Annotated[
        list[str] | None, Option("--var", help="NAME=VALUE of a {{NAME}} in a block; repeat it.")
    ] = None,
    secret: Annotated[list[str] | None, Option(help="NAME=VALUE for its tools; repeat it.")] = None,
    tag: Annotated[list[str] | None, Option(help="A tag of the agents; may be repeated.")] = None,
) -> None:
    """Make the agents of a template."""
    called, _, version = template.partition(":")
    found = find(server(), TEMPLATE, called)
    body = {
        "agent_name": name,
        "memory_variables": pairs(variable, "a variable") or None,
        "tool_variables": pairs(secret, "a secret") or None,
        "tags": tag,
    }
    path = f"{TEMPLATE.path}/{found['project_id']}/{found['name']}:{version or 'latest'}/agents"
    made = server().post(path, given(body))
    show(made, columns(agents="agent_ids", group="group_id", deployment="deployment_id"))


@app.command()
def delete(template: Template, yes: Yes = False) -> None:
    """Delete a template with its versions; agents that were made of it stay."""
    found = find(server(), TEMPLATE, template)
    confirm(f"Delete the template {found['name']}?", yes=yes)
    server().delete(_path(found))
    say(f"Deleted {found['id']}.")


def _path(template: Any) -> str:
    return f"{TEMPLATE.path}/{template['project_id']}/{template['name']}"


def _agent_file(file: Path | None) -> dict[str, Any]:
    assert file is not None
    return json_object(text_of(file), f"the contents of {file}")


@app.command()
def starters(
    name: Annotated[str | None, Argument(help="Show this one alone.")] = None,
    templates: OwnFolder = None,
) -> None:
    """List the templates for `heeler create --template`: folders that become yours."""
    from cli import starter_folders as found

    if name is not None:
        document = found.starter(name, templates).as_json()
        show(document, {key: key for key in document})
        return
    rows = [each.as_json() for each in found.starters(templates)]
    show_rows(rows, {key: key for key in ("name", "version", "description", "author")})


@app.command()
def check(folder: Annotated[Path, Argument(help="The folder of a template.")]) -> None:
    """Check a folder that shall be a template for others: what it says of itself, agents, tests."""
    from cli import starter_folders as found

    problems = found.problems_of(found.starter_in(folder))
    show_lines(problems, problems)
    if problems:
        raise CommandError(f"{folder} cannot be used as a template yet", ExitCode.REFUSED)
    say(
        f"{folder} is a template: heeler create --template {folder.name}"
        f" --templates {folder.parent}"
    )
