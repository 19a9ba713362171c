"""`heeler agents send`: one message, one answer."""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option

from cli.exit_codes import CommandError, ExitCode
from cli.inputs import TEXT_HELP, text_of
from cli.message_printing import MessagePrinter, PlainWriter
from cli.names import AGENT, id_of
from cli.options import OPTIONS
from cli.output import say, show_json, show_made
from cli.run_streams import WAITS, RunStream, user_message
from cli.server import server
from cli.verbs import name_or_id

SECONDS_DEFAULT = 600.0


def send(
    agent: Annotated[str, name_or_id(AGENT)],
    text: Annotated[str, Argument(help=f"What is said: {TEXT_HELP}.")],
    background: Annotated[
        bool, Option("--background", help="Do not wait: print the id of the run.")
    ] = False,
    timeout: Annotated[
        float, Option(metavar="SECONDS", help="Cancel the run if it takes longer.", min=0.001)
    ] = SECONDS_DEFAULT,
    stream: Annotated[
        bool | None, Option(help="Print the answer as it comes; so it is on a terminal.")
    ] = None,
    model: Annotated[str | None, Option(help="Answer with this model, once.")] = None,
) -> None:
    """Send a message and print the answer.

    What the agent thinks and does stands on stderr. The exit code is 1 if the run fails, is
    cancelled, or waits for an approval.
    """
    agent_id = id_of(server(), AGENT, agent)
    message = user_message(text_of(text))
    if background:
        body = {"messages": [message], **({"override_model": model} if model else {})}
        run = server().post(f"/v1/agents/{agent_id}/messages/async", body)
        show_made(run)
        say(f"See how it ends: heeler runs show {run['id']}")
        return
    tokens = (sys.stdout.isatty() if stream is None else stream) and not OPTIONS.json
    run_stream = RunStream(server(), agent_id, [message], tokens=tokens, override_model=model)
    timer = run_stream.cancel_after(timeout)
    try:
        print_run(run_stream)
    except KeyboardInterrupt:
        run_stream.cancel()
        raise
    finally:
        timer.cancel()
    if run_stream.was_too_long and run_stream.is_cancelled:
        raise CommandError(f"The run took longer than {timeout:g} s and was cancelled")
    check(run_stream)


def check(run: RunStream) -> None:
    """Raise the CommandError that says why a run has not ended with an answer."""
    if run.stop_reason == WAITS:
        raise CommandError(
            "A tool call waits for an approval: heeler approvals list", ExitCode.FAILED
        )
    if run.has_failed:
        why = run.error or f"it ended with {run.stop_reason}"
        raise CommandError(f"The run {run.run_id} failed: {why}")


def print_run(run: RunStream) -> None:
    """Print the answer on stdout and what the agent does on stderr, or with --json all of it."""
    if OPTIONS.json:
        messages = list(run.events())
        ended = {"message_type": "stop_reason", "stop_reason": run.stop_reason}
        show_json({"messages": messages, "stop_reason": ended, "usage": run.usage})
        return
    printer = MessagePrinter(PlainWriter())
    for event in run.events():
        printer.show(event)
    printer.end()
