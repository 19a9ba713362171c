"""`heeler agents`: agents themselves; what else is asked of them stands in modules beside."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli import agent_chat, agent_files, agent_history, agent_messages
from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import pairs
from cli.inputs import TEXT_HELP, fields_of, text_of
from cli.names import AGENT, TOOL, find, id_of
from cli.options import TextCommand
from cli.output import columns, say, show, show_made, show_rows
from cli.server import given, server
from cli.verbs import Limit, add_delete, name_or_id

app = noun("Agents: list, make, ask, change, compare and delete them.")

Agent = Annotated[str, name_or_id(AGENT)]
Model = Annotated[str | None, Option(help="Its model, as openai/gpt-4.1.")]
Embedding = Annotated[str | None, Option(help="What embeds its texts; a handle.")]
System = Annotated[str | None, Option(help=f"Its system prompt: {TEXT_HELP}.")]
Description = Annotated[str | None, Option(help="What it is for.")]
Tags = Annotated[list[str] | None, Option("--tag", help="A tag; may be repeated.")]
Tools = Annotated[list[str] | None, Option("--tool", help="A tool by name or id; may be repeated.")]
Fields = Annotated[
    list[str] | None,
    Option("--set", metavar="FIELD=VALUE", help="Another field of the API; may be repeated."),
]

OWN_FIELDS = columns("name", "id", "model", "description", "tags", created="created_at")
OWN_FIELDS |= columns("system")
FIELDS = columns("name", "id", "model", "description", "tags") | columns(
    blocks=lambda agent: [block["label"] for block in agent["blocks"]],
    tools=lambda agent: [tool["name"] for tool in agent["tools"]],
    created="created_at",
    system="system",
)


@app.command("list")
def list_(
    tag: Annotated[list[str] | None, Option(help="Only with this tag; may be repeated.")] = None,
    query: Annotated[
        str | None, Option(help="Only with this text in the name or description.")
    ] = None,
    limit: Limit = 100,
) -> None:
    """List agents, the newest first."""
    agents = server().pages("/v1/agents/", limit=limit, tags=tag, query_text=query)
    show_rows(agents, columns("name", "id", "model", created="created_at"))


@app.command()
def get(
    agent: Agent,
    at: Annotated[
        str | None, Option(help="As it was then: the id of an event, or a time in ISO 8601.")
    ] = None,
) -> None:
    """Show an agent with its blocks and tools."""
    if at is None:
        show(find(server(), AGENT, agent), FIELDS)
        return
    path = f"/v1/agents/{id_of(server(), AGENT, agent)}"
    show(server().get(path, at=at, include=list(AGENT.include)), FIELDS)


@app.command()
def create(
    name: Annotated[str, Argument(help="What it is called.")],
    model: Model = None,
    embedding: Embedding = None,
    system: System = None,
    memory: Annotated[
        list[str] | None,
        Option(metavar="LABEL=VALUE", help=f"A block: {TEXT_HELP}; may be repeated."),
    ] = None,
    tool: Tools = None,
    tag: Tags = None,
    set_: Fields = None,
) -> None:
    """Make an agent and print its id."""
    blocks = [
        {"label": label, "value": text_of(value)}
        for label, value in pairs(memory, "--memory").items()
    ]
    plain = {"name": name, "model": model, "embedding": embedding, "tags": tag}
    own = given({**plain, "system": None if system is None else text_of(system)})
    body = {**own, **_tools(tool), **fields_of(set_, "CreateAgent")}
    if not body.keys() & {"model", "llm_config"}:
        raise CommandError(
            "Give its model: --model HANDLE, as `heeler models list` has them", ExitCode.USAGE
        )
    show_made(server().post("/v1/agents/", {"memory_blocks": blocks, **body}))


@app.command("set")
def set_(
    agent: Agent,
    name: Annotated[str | None, Option(help="What it is called from now on.")] = None,
    model: Model = None,
    system: System = None,
    description: Description = None,
    tag: Tags = None,
    tool: Tools = None,
    set_: Fields = None,
) -> None:
    """Change fields of an agent; the others stay. --tag and --tool say all that it has then."""
    plain = {"name": name, "model": model, "description": description, "tags": tag}
    body = given({**plain, "system": None if system is None else text_of(system)})
    if tool is not None:
        body["tool_ids"] = [id_of(server(), TOOL, each) for each in tool]
    body |= fields_of(set_, "UpdateAgent")
    agent_id = id_of(server(), AGENT, agent)
    show(server().patch(f"/v1/agents/{agent_id}", body), OWN_FIELDS)
    say(f"Changed {', '.join(sorted(body)) or 'nothing'}.")


add_delete(app, AGENT, "Delete an agent, its conversations and its own blocks.")


def _tools(named: list[str] | None) -> dict[str, list[str]]:
    """The tools of a new agent: ids as ids, all else by name."""
    ids = [tool for tool in named or () if TOOL.is_id(tool)]
    names = [tool for tool in named or () if not TOOL.is_id(tool)]
    return {"tool_ids": ids, "tools": names} if named else {}


app.command("send")(agent_messages.send)
app.command("chat", cls=TextCommand)(agent_chat.chat)
app.command("history")(agent_history.history)
app.command("diff")(agent_history.diff)
app.command("fork")(agent_history.fork)
app.command("restore")(agent_history.restore)
app.command("export")(agent_files.export)
app.command("import")(agent_files.import_)
