"""`heeler groups`."""

from __future__ import annotations

from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import json_object, stdin_text
from cli.names import AGENT, GROUP, find, id_of
from cli.options import OPTIONS
from cli.output import columns, say, show, show_json, show_rows, show_text
from cli.server import given, server
from cli.verbs import LIST_ENTRIES, Limit, add_delete, name_or_id

app = noun("Groups: agents that answer together.")

Group = Annotated[str, name_or_id(GROUP)]
Agent = Annotated[str, name_or_id(AGENT)]
TYPES = "round_robin, broadcast, supervisor, dynamic, swarm, intelligent"

COLUMNS = columns(
    name=lambda group: group["name"] or group["id"],
    id="id",
    type="manager_type",
    members=lambda group: len(group["agent_ids"]),
    description="description",
)
FIELDS = columns("name", "id", "description", type="manager_type", manager="manager_agent_id")
FIELDS |= columns(members=lambda group: [member["name"] for member in group["members"]])
FIELDS |= columns(shared_blocks="shared_block_ids", shared_state="shared_state")


@app.command("list")
def list_(
    agent: Annotated[str | None, Option(help="Those with this agent: its name or id.")] = None,
    limit: Limit = LIST_ENTRIES,
) -> None:
    """List groups, the newest first."""
    asked = {"agent_id": id_of(server(), AGENT, agent) if agent else None}
    show_rows(server().pages(GROUP.path, limit=limit, **asked), COLUMNS)


@app.command()
def get(group: Group) -> None:
    """Show a group, its members and its shared state."""
    show(_with_members(find(server(), GROUP, group)), FIELDS)


def _with_members(group: Any) -> Any:
    return {**group, "members": server().get(f"{GROUP.path}/{group['id']}/members")}


@app.command()
def create(
    name: Annotated[str, Argument(help="What it is called.")],
    agent: Annotated[list[str], Option(help="A member; repeat it, in their order.")],
    manager_type: Annotated[str, Option("--type", help=f"Who answers: {TYPES}.")] = "round_robin",
    manager: Annotated[str | None, Option(help="The agent that manages: its name or id.")] = None,
    description: Annotated[str, Option(help="What the group is for; its members read it.")] = "",
    state: Annotated[str | None, Option(help="The shared state, as JSON.")] = None,
) -> None:
    """Make a group of agents."""
    config: dict[str, Any] = {"manager_type": manager_type}
    if manager is not None:
        config["manager_agent_id"] = id_of(server(), AGENT, manager)
    fields = {
        "name": name,
        "description": description,
        "agent_ids": [id_of(server(), AGENT, member) for member in agent],
        "manager_config": config,
        "shared_state": None if state is None else json_object(state, "the shared state"),
    }
    show(_with_members(server().post(GROUP.path, given(fields))), FIELDS)


@app.command("set")
def set_(
    group: Group,
    name: Annotated[str | None, Option(help="Another name.")] = None,
    description: Annotated[str | None, Option(help="What the group is for.")] = None,
    state: Annotated[str | None, Option(help="A change of the shared state, as JSON.")] = None,
) -> None:
    """Change what is given. The state is merged key by key, unless the group replaces it."""
    path = f"{GROUP.path}/{id_of(server(), GROUP, group)}"
    fields = given({"name": name, "description": description})
    if not fields and state is None:
        raise CommandError("Say what to change: --name, --description or --state", ExitCode.USAGE)
    if state is not None:
        server().patch(f"{path}/state", {"state": json_object(state, "the shared state")})
    changed = server().patch(path, fields) if fields else server().get(path)
    show(_with_members(changed), FIELDS)


@app.command()
def add(group: Group, agent: Agent) -> None:
    """Make an agent the last member of a group."""
    agent_id = id_of(server(), AGENT, agent)
    path = f"{GROUP.path}/{id_of(server(), GROUP, group)}"
    show(_with_members(server().post(f"{path}/members", {"agent_id": agent_id})), FIELDS)


@app.command()
def remove(group: Group, agent: Agent) -> None:
    """Take an agent out of a group; the agent stays."""
    agent_id = id_of(server(), AGENT, agent)
    path = f"{GROUP.path}/{id_of(server(), GROUP, group)}"
    show(_with_members(server().delete(f"{path}/members/{agent_id}")), FIELDS)


@app.command()
def send(
    group: Group,
    message: Annotated[str, Argument(help="What all members are told; - is stdin.")],
    to: Annotated[
        list[str] | None, Option(help="Only this member, in private; may be repeated.")
    ] = None,
) -> None:
    """Send a message to a group, and show who said what."""
    if message == "-":
        message = stdin_text()
    recipients = [id_of(server(), AGENT, member) for member in to or []]
    body = given({"input": message, "recipients": recipients or None})
    answer = server().post(f"/v1/groups/{id_of(server(), GROUP, group)}/messages", body)
    if OPTIONS.json:
        show_json(answer)
        return
    for said in answer["messages"]:
        _show_message(said)
    for hop in answer["hops"]:
        if hop["status"] not in ("completed", "running"):
            say(f"{hop['name']}: {hop['status']}: {hop['reason']}")


@app.command()
def history(group: Group, limit: Limit = 50) -> None:
    """Show the transcript: what was said to all, the oldest first."""
    path = f"/v1/groups/{id_of(server(), GROUP, group)}/messages"
    messages = list(server().pages(path, limit=limit, order="desc"))[::-1]
    if OPTIONS.json:
        show_json(messages)
        return
    for message in messages:
        _show_message(message)


def _show_message(message: Any) -> None:
    """Print a message with its author."""
    if message["message_type"] in ("assistant_message", "user_message"):
        content = message["content"]
        if not isinstance(content, str):
            content = "\n".join(part.get("text") or f"({part['type']})" for part in content)
        show_text(f"{message['name'] or 'user'}: {content}")


add_delete(app, GROUP, "Delete a group; its agents stay.")
