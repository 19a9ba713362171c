"""`heeler approvals`: tool calls of all agents that wait for a yes or no."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from typer import Argument, Option

from cli.agent_messages import check, print_run
from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.message_printing import call_text, calls_of
from cli.names import AGENT, id_of
from cli.output import Column, show_rows
from cli.run_streams import RunStream
from cli.server import server

app = noun("Approvals: tool calls that wait for a yes or no.")

Calls = Annotated[
    list[str], Argument(metavar="CALL...", help="Ids of calls, or agents: all that they wait for.")
]
Reason = Annotated[str | None, Option(help="What the agent is told.")]

COLUMNS: dict[str, Column] = {
    "call": "tool_call_id",
    "agent": "agent_name",
    "what": call_text,
    "since": "date",
}


@app.command("list")
def list_(
    agent: Annotated[str | None, Option("--agent", "-a", help="Only of this agent.")] = None,
) -> None:
    """List the calls that wait, with what they would do."""
    show_rows(_pending(agent), COLUMNS)


@app.command()
def approve(calls: Calls) -> None:
    """Let calls be carried out; the agents go on, and their answers are printed."""
    _answer(calls, approve=True, reason=None)


@app.command()
def deny(calls: Calls, reason: Reason = None) -> None:
    """Refuse calls; the agents read why, and go on."""
    _answer(calls, approve=False, reason=reason)


def _pending(agent: str | None = None) -> Iterator[dict[str, Any]]:
    """Each call that waits, with the agent that made it."""
    include = ["agent.pending_approval"]
    if agent is None:
        agents = server().pages("/v1/agents/", include=include, show_hidden_agents=True)
    else:
        path = f"/v1/agents/{id_of(server(), AGENT, agent)}"
        agents = iter([server().get(path, include=include)])
    for document in agents:
        pending = document.get("pending_approval") or {}
        for call in calls_of(pending):
            yield {
                "agent_id": document["id"],
                "agent_name": document["name"],
                "run_id": pending["run_id"],
                "date": pending["date"],
                **call,
            }


def _answer(names: Sequence[str], *, approve: bool, reason: str | None) -> None:
    by_agent: dict[str, list[str]] = {}
    pending = list(_pending())
    for name in names:
        named = [call for call in pending if name in _names_of(call)]
        if not named:
            raise CommandError(f"No call waits by the name '{name}'", ExitCode.NOT_FOUND)
        for call in named:
            by_agent.setdefault(call["agent_id"], []).append(call["tool_call_id"])
    for agent_id, call_ids in by_agent.items():
        answers = [
            {"type": "approval", "tool_call_id": call_id, "approve": approve, "reason": reason}
            for call_id in dict.fromkeys(call_ids)
        ]
        run = RunStream(server(), agent_id, [{"type": "approval", "approvals": answers}])
        print_run(run)
        check(run)


def _names_of(call: dict[str, Any]) -> tuple[str, ...]:
    return call["tool_call_id"], call["agent_id"], call["agent_name"]
