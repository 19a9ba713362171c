"""`heeler runs`."""

from __future__ import annotations

from time import sleep
from typing import Annotated, Any

from typer import Argument, Option

from cli.commands import noun
from cli.exit_codes import CommandError, ExitCode
from cli.message_printing import MessagePrinter, PlainWriter, text_of
from cli.names import AGENT, id_of
from cli.options import OPTIONS
from cli.output import columns, progress, say, show, show_json, show_rows, write
from cli.server import given, segment, server
from cli.verbs import Limit

LOOK_SECONDS, LOOK_SECONDS_MAX = 0.05, 1.0
MESSAGES_MAX = 1000

app = noun("Runs: what agents answered, step by step, once more by another model, or no further.")

Run = Annotated[str, Argument(help="Its id.")]

SUMMARY = columns(run="id", agent="agent_id") | columns("status", "stop_reason")
SUMMARY |= columns(created="created_at")
COLUMNS = SUMMARY | columns(seconds=lambda run: _seconds(run.get("total_duration_ns")))
REPORT = columns(replay="id") | columns("status", "error", "same", "first_difference", "notes")


@app.command("list")
def list_(
    agent: Annotated[str | None, Option("--agent", "-a", help="Only of this agent.")] = None,
    status: Annotated[
        list[str] | None,
        Option(help="created, running, completed, failed or cancelled; may be repeated."),
    ] = None,
    active: Annotated[bool, Option("--active", help="Only those that have not ended.")] = False,
    limit: Limit = 50,
) -> None:
    """List runs, the newest first."""
    agent_id = None if agent is None else id_of(server(), AGENT, agent)
    runs = server().pages(
        "/v1/runs/", limit=limit, agent_id=agent_id, statuses=status, active=active or None
    )
    show_rows(runs, COLUMNS)


@app.command("show")
def show_run(
    run: Run,
    trace: Annotated[bool, Option("--trace", help="Where the time went, span by span.")] = False,
) -> None:
    """Show a run: its messages, its steps, what they used and how it ended."""
    path = f"/v1/runs/{segment(run)}"
    if trace:
        show_rows(server().get(f"{path}/trace"), SPANS)
        return
    document = server().get(path)
    messages = server().get(f"{path}/messages", limit=MESSAGES_MAX, order="asc")
    steps = list(server().pages(f"{path}/steps"))[::-1]
    usage = server().get(f"{path}/usage")
    if OPTIONS.json:
        show_json({**document, "messages": messages, "steps": steps, "usage": usage})
        return
    show(document, SUMMARY)
    write(f"steps        {len(steps)}")
    write(f"tokens       {usage['prompt_tokens']} in, {usage['completion_tokens']} out")
    _print_messages(messages)


SPANS = columns(
    span="SpanName",
    seconds=lambda span: _seconds(span["Duration"]),
    at="Timestamp",
    status="StatusCode",
)


def _print_messages(messages: list[Any]) -> None:
    printer = MessagePrinter(PlainWriter())
    for message in messages:
        if message["message_type"] == "user_message":
            printer.end()
            write(f"> {text_of(message['content'])}")
        else:
            printer.show(message)
    printer.end()


@app.command()
def replay(
    run: Run,
    model: Annotated[str | None, Option(help="Ask this model; without it, that of then.")] = None,
    from_step: Annotated[int | None, Option(help="Ask from this step on.", min=1)] = None,
    live: Annotated[
        bool, Option("--live", help="Run the tools; without it their results are the recorded.")
    ] = False,
) -> None:
    """Ask a model once more, and compare. The exit code is 0 if the replay ends, same or not."""
    path = f"/v1/runs/{segment(run)}"
    asked = {"model": model, "from_step": from_step, "mode": "live" if live else None}
    begun = server().post(f"{path}/replay", given({**asked, "background": True}))
    report = _wait(f"{path}/replays/{begun['id']}", begun)
    if OPTIONS.json:
        show_json(report)
    else:
        _print_report(report)
    if report["status"] == "failed":
        raise CommandError(f"The replay failed: {report['error']}")


def _wait(path: str, report: Any) -> Any:
    pause = LOOK_SECONDS
    with progress("Replaying"):
        while report["status"] == "running":
            sleep(pause)
            pause = min(1.5 * pause, LOOK_SECONDS_MAX)
            report = server().get(path)
    return report


def _print_report(report: Any) -> None:
    show(report, REPORT)
    for step in report["steps"]:
        write(f"step {step['number']}")
        for side in ("recorded", "replayed"):
            if transcript := step[side]:
                say(f"{side} ({transcript['model']}):")
                _print_messages(transcript["messages"])


@app.command()
def cancel(run: Annotated[list[str], Argument(help="Their ids.")]) -> None:
    """End runs that have not ended; what they did stays."""
    by_agent: dict[str, list[str]] = {}
    for run_id in run:
        document = server().get(f"/v1/runs/{segment(run_id)}")
        by_agent.setdefault(document["agent_id"], []).append(run_id)
    outcome: dict[str, str] = {}
    for agent_id, run_ids in by_agent.items():
        path = f"/v1/agents/{agent_id}/messages/cancel"
        outcome |= server().post(path, {"run_ids": run_ids})
    if OPTIONS.json:
        show_json(outcome)
    else:
        rows = [{"run": run_id, "result": result} for run_id, result in outcome.items()]
        show_rows(rows, columns("run", "result"))
    if failed := [run_id for run_id, result in outcome.items() if result == "failed"]:
        raise CommandError(f"Not cancelled: {', '.join(failed)}", ExitCode.REFUSED)


def _seconds(nanoseconds: int | None) -> str:
    return "" if nanoseconds is None else f"{nanoseconds / 1e9:.2f}"
