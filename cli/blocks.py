"""`heeler blocks`: memory blocks by id, or by their label in an agent."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.inputs import TEXT_HELP, text_of
from cli.names import AGENT, BLOCK, id_of
from cli.options import OPTIONS
from cli.output import columns, confirm, say, show, show_json, show_made, show_rows, write
from cli.server import given, server
from cli.verbs import Limit, Yes, name_or_id

app = noun("Memory blocks: read, change, compare, undo, share.")

Block = Annotated[str, Argument(help="Its id, or its label.")]
Agent = Annotated[
    str | None, Option("--agent", "-a", help="The agent that has the label: its name or id.")
]
Value = Annotated[str, Argument(help=f"{TEXT_HELP[0].upper()}{TEXT_HELP[1:]}.")]
IfVersion = Annotated[int | None, Option(help="Only if this is still the newest version.", min=1)]

FIELDS = columns("label", "id", "description", "limit", "read_only", "value")
VERSIONS = columns("version", when="created_at", what="kind", by="author_id", run="run_id")
VERSIONS |= columns(tool="tool_name", fields=lambda version: sorted(version.get("fields") or {}))


def block_id(block: str, agent: str | None) -> str:
    """The id of a block, which may be given by its label in an agent. Raises CommandError."""
    if BLOCK.is_id(block):
        return block
    if agent is None:
        return id_of(server(), BLOCK, block)
    agent_id = id_of(server(), AGENT, agent)
    blocks = server().get(f"/v1/agents/{agent_id}/core-memory/blocks", limit=1000)
    for entry in blocks:
        if entry["label"] == block:
            return str(entry["id"])
    labels = ", ".join(sorted(entry["label"] for entry in blocks)) or "none"
    raise CommandError(
        f"The agent {agent} has no block '{block}' (it has: {labels})", ExitCode.NOT_FOUND
    )


@app.command("list")
def list_(
    agent: Agent = None,
    label: Annotated[str | None, Option(help="Only with this label.")] = None,
    limit: Limit = 100,
) -> None:
    """List blocks, the newest first, or those of an agent."""
    if agent is None:
        blocks = server().pages("/v1/blocks/", limit=limit, label=label)
    else:
        path = f"/v1/agents/{id_of(server(), AGENT, agent)}/core-memory/blocks"
        blocks = (
            block for block in server().pages(path, limit=limit) if label in (None, block["label"])
        )
    shown = columns("label", "id", characters=lambda block: len(block["value"]), value="value")
    show_rows(blocks, shown)


@app.command()
def get(
    block: Block,
    agent: Agent = None,
    version: Annotated[int | None, Option(help="As it was in this version.", min=1)] = None,
) -> None:
    """Show a block; with --quiet its value alone."""
    path = f"/v1/blocks/{block_id(block, agent)}"
    document = server().get(path if version is None else f"{path}/versions/{version}")
    if OPTIONS.quiet and not OPTIONS.json:
        write(document["value"])
    else:
        show(document, FIELDS)


@app.command()
def create(
    label: Annotated[str, Argument(help="What agents call it.")],
    value: Value,
    description: Annotated[str | None, Option(help="What agents keep in it.")] = None,
    limit: Annotated[int | None, Option(help="At most so many characters.", min=1)] = None,
    read_only: Annotated[bool, Option("--read-only", help="Agents cannot change it.")] = False,
    agent: Annotated[
        list[str] | None, Option("--agent", "-a", help="Attach it; may be repeated.")
    ] = None,
) -> None:
    """Make a block and print its id."""
    fields = {"description": description, "limit": limit, "read_only": read_only or None}
    agents = [id_of(server(), AGENT, name) for name in agent or ()]
    body = {"label": label, "value": text_of(value)}
    made = server().post("/v1/blocks/", {**body, **given(fields)})
    for agent_id in agents:
        server().patch(f"/v1/agents/{agent_id}/core-memory/blocks/attach/{made['id']}")
    show_made(made)


@app.command("set")
def set_(
    block: Block,
    value: Annotated[str | None, Argument(help=f"Its value: {TEXT_HELP}.")] = None,
    agent: Agent = None,
    label: Annotated[str | None, Option(help="What it is called from now on.")] = None,
    description: Annotated[str | None, Option(help="What agents keep in it.")] = None,
    limit: Annotated[int | None, Option(help="At most so many characters.", min=1)] = None,
) -> None:
    """Change a block, for every agent that has it."""
    fields = {"label": label, "description": description, "limit": limit}
    body = given({**fields, "value": None if value is None else text_of(value)})
    if not body:
        raise CommandError("Say what is changed: a value, or a field", ExitCode.USAGE)
    changed = server().patch(f"/v1/blocks/{block_id(block, agent)}", body)
    show(changed, FIELDS)


@app.command()
def delete(block: Block, agent: Agent = None, yes: Yes = False) -> None:
    """Delete a block; no agent has it any more."""
    found = block_id(block, agent)
    confirm(f"Delete the block {block}?", yes=yes)
    server().delete(f"/v1/blocks/{found}")
    say(f"Deleted {found}.")


@app.command()
def attach(
    block: Annotated[str, Argument(help="Its id, or its label if no other block has it.")],
    agent: Annotated[str, name_or_id(AGENT)],
) -> None:
    """Give an agent a block; agents that have the same block share it."""
    found = id_of(server(), BLOCK, block)
    agent_id = id_of(server(), AGENT, agent)
    server().patch(f"/v1/agents/{agent_id}/core-memory/blocks/attach/{found}")
    say(f"Attached {found} to {agent_id}.")


@app.command()
def detach(block: Block, agent: Annotated[str, name_or_id(AGENT)]) -> None:
    """Take a block from an agent; the block stays."""
    found = block_id(block, agent)
    agent_id = id_of(server(), AGENT, agent)
    server().patch(f"/v1/agents/{agent_id}/core-memory/blocks/detach/{found}")
    say(f"Detached {found} from {agent_id}.")


@app.command()
def history(
    block: Block,
    agent: Agent = None,
    limit: Annotated[int, Option(help="At most so many.", min=1, max=100)] = 50,
) -> None:
    """List the versions of a block, the newest first: what changed, by whom, in which run."""
    path = f"/v1/blocks/{block_id(block, agent)}/history"
    show_rows(server().get(path, limit=limit), VERSIONS)


@app.command()
def diff(
    block: Block,
    from_version: Annotated[
        int | None, Argument(metavar="FROM", help="The version before the newest.", min=1)
    ] = None,
    to_version: Annotated[
        int | None, Argument(metavar="TO", help="The newest version.", min=1)
    ] = None,
    agent: Agent = None,
) -> None:
    """Compare two versions of a block; without them, show what the last change did."""
    path = f"/v1/blocks/{block_id(block, agent)}/diff"
    difference = server().get(path, from_version=from_version, to_version=to_version)
    if OPTIONS.json:
        show_json(difference)
        return
    for name, change in difference["fields"].items():
        write(f"{name}: {change['before']!r} → {change['after']!r}")
    if difference["value_diff"]:
        write(difference["value_diff"])
    elif not difference["fields"]:
        say("Nothing differs.")


@app.command()
def undo(
    block: Block,
    agent: Agent = None,
    to_version: Annotated[
        int | None, Option("--to", help="Back to this version, not the one before.", min=1)
    ] = None,
    if_version: IfVersion = None,
) -> None:
    """Take the last change back, as one more version: an undo is undone in the same way."""
    body = given({"to_version": to_version, "if_version": if_version})
    restored = server().post(f"/v1/blocks/{block_id(block, agent)}/undo", body)
    show(restored, FIELDS)
