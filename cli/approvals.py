"""`heeler approvals`: tool calls of all agents that wait for a yes or no."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from typer import Argument, Option

from cli.agent_messages import check, print_run
from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.message_printing import call_text
from cli.names import AGENT, id_of
from cli.output import columns, say, show_rows
from cli.pending_calls import calls_of_agent, calls_of_all
from cli.run_streams import WAITS, RunStream
from cli.server import server

app = noun("Approvals: tool calls that wait for a yes or no.")

Calls = Annotated[
    list[str], Argument(metavar="CALL...", help="Ids of calls, or agents: all that they wait for.")
]
Reason = Annotated[str | None, Option(help="What the agent is told.")]

COLUMNS = columns(call="tool_call_id", agent="agent_name", what=call_text, since="date")


@app.command("list")
def list_(
    agent: Annotated[str | None, Option("--agent", "-a", help="Only of this agent.")] = None,
) -> None:
    """List the calls that wait, with what they would do."""
    if agent is None:
        show_rows(calls_of_all(server()), COLUMNS)
    else:
        show_rows(calls_of_agent(server(), id_of(server(), AGENT, agent)), COLUMNS)


@app.command()
def approve(calls: Calls) -> None:
    """Let calls be carried out; the agents go on, and their answers are printed."""
    _answer(calls, approve=True, reason=None)


@app.command()
def deny(calls: Calls, reason: Reason = None) -> None:
    """Refuse calls; the agents read why, and go on."""
    _answer(calls, approve=False, reason=reason)


def _answer(names: Sequence[str], *, approve: bool, reason: str | None) -> None:
    pending = list(calls_of_all(server()))
    chosen: dict[tuple[str, str | None], list[str]] = {}
    for name in dict.fromkeys(names):
        named = [call for call in pending if name in _names_of(call)]
        if not named:
            raise CommandError(f"No call waits by the name '{name}'", ExitCode.NOT_FOUND)
        for call in named:
            place = call["agent_id"], call["conversation_id"]
            chosen.setdefault(place, []).append(call["tool_call_id"])
    for (agent_id, conversation_id), call_ids in chosen.items():
        answers = [
            {"type": "approval", "tool_call_id": call_id, "approve": approve, "reason": reason}
            for call_id in dict.fromkeys(call_ids)
        ]
        message = {"type": "approval", "approvals": answers}
        run = RunStream(server(), agent_id, [message], conversation_id=conversation_id)
        print_run(run)
        if run.stop_reason == WAITS:
            say("A tool call waits: heeler approvals list")
        else:
            check(run)


def _names_of(call: dict[str, Any]) -> tuple[str, ...]:
    return call["tool_call_id"], call["agent_id"], call["agent_name"]
