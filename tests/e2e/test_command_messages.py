"""`heeler agents send` and `chat`, `heeler approvals`: said, answered, asked, cancelled."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from cli.exit_codes import ExitCode
from cli.run_streams import RunStream
from tests.e2e.asking import says, unique
from tests.e2e.conftest import NewAgent
from tests.e2e.test_approvals import ASK, BOTH, GATED, RULE, human
from tests.heeler_command import HeelerCommand
from tests.servers import HeelerInstance

INSERT = 'CALL:memory_insert:{"label": "human", "new_string": "Likes tea"}'
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def agent(new_agent: NewAgent) -> Any:
    return new_agent()


def statuses(letta: Letta, agent_id: str) -> list[str | None]:
    """How the runs of an agent ended, the newest first."""
    return [run.status for run in letta.runs.list(agent_id=agent_id).items]


@pytest.mark.parametrize("how", ["--stream", "--no-stream"])
def test_the_answer_alone_is_on_stdout(
    heeler_command: HeelerCommand, letta: Letta, agent: Any, how: str
) -> None:
    text = f'THINK:"So it is." {INSERT} SAY:I shall remember it.'
    ended = heeler_command("agents", "send", agent.name, text, how)
    assert ended.out == "I shall remember it.\n"
    assert ended.err.splitlines() == [
        "  ~ So it is.",
        '  * memory_insert(label="human", new_string="Likes tea")',
        "  → Name: Ada Likes tea",
    ]
    assert human(letta, agent.id) == "Name: Ada\nLikes tea"


def test_quiet_prints_the_answer_and_nothing_else(
    heeler_command: HeelerCommand, agent: Any
) -> None:
    ended = heeler_command("agents", "send", agent.id, "-", "--quiet", input=f"{INSERT} SAY:Yes.")
    assert (ended.out, ended.err) == ("Yes.\n", "")


def test_json_is_the_answer_of_the_api(heeler_command: HeelerCommand, agent: Any) -> None:
    ended = heeler_command("agents", "send", agent.id, f"{INSERT} SAY:Yes.", "--json")
    assert ended.err == ""
    types = [message["message_type"] for message in ended.json["messages"]]
    assert types == ["tool_call_message", "tool_return_message", "assistant_message"]
    assert ended.json["stop_reason"]["stop_reason"] == "end_turn"
    assert ended.json["usage"]["step_count"] == 2


def test_a_run_that_fails_is_an_error(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    ended = heeler_command.run("agents", "send", agent.id, "FAIL:400")
    assert (ended.code, ended.out) == (ExitCode.FAILED, "")
    [run] = letta.runs.list(agent_id=agent.id).items
    assert f"The run {run.id} failed: " in ended.err
    assert "answered 400" in ended.err


def test_a_run_in_the_background_is_not_waited_for(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    ended = heeler_command("agents", "send", agent.id, "SLOW:60000 SAY:Late.", "--background")
    run_id = ended.out.strip()
    assert letta.runs.retrieve(run_id).status in ("created", "running")
    cancelled = heeler_command.json("runs", "cancel", run_id)
    assert cancelled == {run_id: "cancelled"}
    assert letta.runs.retrieve(run_id).status == "cancelled"
    assert heeler_command.run("runs", "cancel", run_id).code == ExitCode.REFUSED


def test_a_run_that_takes_too_long_is_cancelled(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    ended = heeler_command.run("agents", "send", agent.id, "SLOW:60000", "--timeout", "0.001")
    assert ended.code == ExitCode.FAILED
    assert "took longer than 0.001 s and was cancelled" in ended.err
    assert statuses(letta, agent.id) == ["cancelled"]


def break_after(monkeypatch: pytest.MonkeyPatch, breaks: list[int]) -> None:
    """The stream of a run breaks after so many events, each time it is read."""
    whole = RunStream._stream

    def broken(run: RunStream) -> Iterator[dict[str, Any]]:
        left = breaks.pop(0) if breaks else None
        for event in whole(run):
            if left == 0:
                raise httpx.ReadError("The connection was lost")
            left = None if left is None else left - 1
            yield event

    monkeypatch.setattr(RunStream, "_stream", broken)
    monkeypatch.setattr("cli.run_streams.RESUME_SECONDS", 0.0)


def test_a_stream_that_breaks_is_resumed_where_it_broke(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    text = "One two three four five six seven eight nine ten."
    breaks = [0, 1, 3, 0, 1]
    break_after(heeler_command.monkeypatch, breaks)
    ended = heeler_command("agents", "send", agent.id, f"{INSERT} SAY:{text}", "--stream")
    assert breaks == []
    assert ended.out == f"{text}\n"
    assert statuses(letta, agent.id) == ["completed"]
    assert human(letta, agent.id) == "Name: Ada\nLikes tea"


def test_a_stream_that_breaks_again_and_again_says_where_the_run_is(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    break_after(heeler_command.monkeypatch, [1, *[0] * 20])
    ended = heeler_command.run("agents", "send", agent.id, "SAY:Hello")
    assert ended.code == ExitCode.UNREACHABLE
    [run] = letta.runs.list(agent_id=agent.id).items
    assert f"heeler runs show {run.id}" in ended.err


def test_control_c_cancels_the_run_that_is_waited_for(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    whole = RunStream._stream

    def interrupted(run: RunStream) -> Iterator[dict[str, Any]]:
        for event in whole(run):
            yield event
            signal.raise_signal(signal.SIGINT)

    heeler_command.monkeypatch.setattr(RunStream, "_stream", interrupted)
    ended = heeler_command.run("agents", "send", agent.id, "SLOW:60000")
    assert ended.code == ExitCode.INTERRUPTED
    assert statuses(letta, agent.id) == ["cancelled"]


def test_approvals_of_all_agents_are_listed_and_given(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    agents = [new_agent(name=unique("gated"), **GATED) for _ in range(2)]
    for agent in agents:
        ended = heeler_command.run("agents", "send", agent.name, ASK)
        assert (ended.code, ended.out) == (ExitCode.FAILED, "")
        assert "heeler approvals list" in ended.err
    listed = heeler_command.json("approvals", "list")
    calls = {call["agent_name"]: call for call in listed}
    assert {agent.name for agent in agents} <= calls.keys()
    [call] = heeler_command.json("approvals", "list", "--agent", agents[0].name)
    assert call == calls[agents[0].name]
    assert (call["agent_id"], call["name"]) == (agents[0].id, "memory_insert")
    shown = heeler_command("approvals", "list", "--agent", agents[0].id).out
    assert 'memory_insert(label="human", new_string="Likes tea")' in shown

    approved = heeler_command("approvals", "approve", call["tool_call_id"])
    assert approved.out == "Noted.\n"
    assert human(letta, agents[0].id) == "Name: Ada\nLikes tea"
    denied = heeler_command("approvals", "deny", agents[1].name, "--reason", "Ask me on Monday")
    assert "✗" in denied.err
    assert "Ask me on Monday" in denied.err
    assert human(letta, agents[1].id) == "Name: Ada"
    left = {call["agent_name"] for call in heeler_command.json("approvals", "list")}
    assert left.isdisjoint(agent.name for agent in agents)
    ended = heeler_command.run("approvals", "approve", call["tool_call_id"])
    assert ended.code == ExitCode.NOT_FOUND


def test_approvals_are_given_one_by_one_and_in_every_conversation(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    rules = [*GATED["tool_rules"], {**RULE, "tool_name": "conversation_search"}]
    agent = new_agent(**{**GATED, "tool_rules": rules})
    letta.agents.messages.create(agent.id, messages=says(f"CALLS:{BOTH} SAY:Both."))
    conversation = letta.conversations.create(agent_id=agent.id)
    list(letta.conversations.messages.create(conversation.id, messages=says(ASK)))
    calls = heeler_command.json("approvals", "list", "--agent", agent.id)
    assert [(call["name"], call["conversation_id"]) for call in calls] == [
        ("conversation_search", None),
        ("memory_insert", None),
        ("memory_insert", conversation.id),
    ]
    ids = [call["tool_call_id"] for call in calls]
    ended = heeler_command("approvals", "deny", ids[0])
    assert (ended.out, ended.err) == ("", "A tool call waits: heeler approvals list\n")
    listed = heeler_command.json("approvals", "list", "--agent", agent.id)
    assert [call["tool_call_id"] for call in listed] == ids[1:]
    assert heeler_command("approvals", "approve", *ids[1:]).out == "Both.\nNoted.\n"
    assert human(letta, agent.id) == "Name: Ada\nLikes tea\nLikes tea"
    assert heeler_command.json("approvals", "list", "--agent", agent.id) == []


def test_a_session_through_a_pipe(heeler_command: HeelerCommand, letta: Letta, agent: Any) -> None:
    lines = [
        f"{INSERT} SAY:Noted.",
        "",
        "/memory",
        "/memory human",
        "/memory nothing",
        "FAIL:400",
        "/nonsense",
        "SAY:Still here.",
        "/history 2",
        "/exit",
        "SAY:Never said.",
    ]
    ended = heeler_command("agents", "chat", agent.name, input="\n".join(lines))
    assert ended.out.splitlines() == [
        "Noted.",
        "human  19 of 100000 characters",
        "persona  10 of 100000 characters",
        "Name: Ada",
        "Likes tea",
        "Still here.",
        "> SAY:Still here.",
        "Still here.",
    ]
    for text in ("memory_insert(", "no block 'nothing'", "answered 400", "no /nonsense"):
        assert text in ended.err
    assert statuses(letta, agent.id) == ["completed", "failed", "completed"]


def test_a_session_has_a_model_of_its_own(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    other = "openai/gpt-4.1"
    lines = ["/model", f"/model {other}", "SAY:One", "/model -", "SAY:Two"]
    ended = heeler_command("agents", "chat", agent.id, input="\n".join(lines))
    assert ended.out == "One\nTwo\n"
    models = [line for line in ended.err.splitlines() if line.startswith("Model: ")]
    assert models == [f"Model: {agent.model}", f"Model: {other}", f"Model: {agent.model}"]
    asked = [step.model for step in letta.steps.list(agent_id=agent.id).items]
    assert asked == [str(agent.model).partition("/")[2], other.partition("/")[2]]
    assert letta.agents.retrieve(agent.id).model == agent.model


def test_a_session_asks_for_approvals_in_place(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    rules = [*GATED["tool_rules"], {**RULE, "tool_name": "conversation_search"}]
    agent = new_agent(**{**GATED, "tool_rules": rules})
    lines = [f"CALLS:{BOTH} SAY:Both.", "/deny Not now", "/approve", "SAY:Next."]
    ended = heeler_command("agents", "chat", agent.id, input="\n".join(lines))
    assert ended.out == "Both.\nNext.\n"
    assert 'Run memory_insert(label="human", new_string="Likes tea")? [/approve' in ended.err
    assert "Not now" in ended.err
    assert human(letta, agent.id) == "Name: Ada\nLikes tea"


def test_a_session_begins_with_what_waits_and_leaves_it_where_nobody_answers(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent
) -> None:
    agent = new_agent(**GATED)
    letta.agents.messages.create(agent.id, messages=says(ASK))
    ended = heeler_command("agents", "chat", agent.id)
    assert "It waits: heeler approvals list" in ended.err
    [call] = heeler_command.json("approvals", "list", "--agent", agent.id)
    ended = heeler_command("agents", "chat", agent.id, input="/approve\n")
    assert ended.out == "Noted.\n"
    assert heeler_command.json("approvals", "list", "--agent", agent.id) == []
    assert call["name"] == "memory_insert"


def test_control_c_cancels_an_answer_and_the_session_goes_on(
    heeler_command: HeelerCommand, letta: Letta, agent: Any
) -> None:
    whole = RunStream._stream
    interrupts = [True]

    def interrupted(run: RunStream) -> Iterator[dict[str, Any]]:
        for event in whole(run):
            yield event
            if interrupts:
                interrupts.pop()
                signal.raise_signal(signal.SIGINT)

    heeler_command.monkeypatch.setattr(RunStream, "_stream", interrupted)
    ended = heeler_command("agents", "chat", agent.id, input="SLOW:60000 SAY:No\nSAY:Again\n")
    assert ended.out == "Again\n"
    assert "Cancelled.\n" in ended.err
    assert statuses(letta, agent.id) == ["completed", "cancelled"]


def test_a_session_at_a_terminal(heeler: HeelerInstance, agent: Any, tmp_path: Path) -> None:
    """As people have it: readline, Markdown, Ctrl-D; and no control sequences of the agent."""
    said = tmp_path / "said"
    said.write_text("SAY:This is **loud** and \x1b]0;title\x07red.\n\n```\ncode\n```\nThe end.")
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "cli", "agents", "chat", agent.name],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={
            "HEELER_URL": heeler.base_url,
            "HOME": str(tmp_path),
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CHECKOUT),
            "TERM": "xterm-256color",
        },
        start_new_session=True,
    )
    os.close(other_end)
    seen = b""

    def read_until(*texts: bytes) -> None:
        """Read until these texts have come, one behind the other."""
        nonlocal seen
        for text in texts:
            while text not in seen:
                seen += os.read(terminal, 1 << 16)
            kept.append(seen[: seen.index(text)])
            seen = seen[seen.index(text) + len(text) :]

    kept: list[bytes] = []
    try:
        read_until(b"> ")
        os.write(terminal, f"/send @{said}\n".encode())
        read_until(b"This is", b"code", b"The end.", b"> ")
        os.write(terminal, b"\x04")
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    shown = b"".join(kept)
    assert b"**" not in shown, "Markdown is rendered"
    assert b"loud" in shown
    assert b"\x1b]0;" not in shown
    assert b"]0;titlered." in shown.replace(b"\x1b[0m", b"")
    history = tmp_path / ".local" / "state" / "heeler" / "chat_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text() == f"/send @{said}\n"
