"""`heeler agents chat`: who answers a question, and what becomes of a paste."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import threading
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import typed_lines
from cli.chat_session import _answer
from tests.unit.cli import chat_program
from tests.walks import CHECKOUT

PROMPT = b"> "
QUESTION = b"Run delete_all()? [y/n or why not] "
PASTE_BEGINS, PASTE_ENDS = b"\x1b[200~", b"\x1b[201~"


class Terminal:
    """A session at a terminal of its own."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.go_on = folder / "go_on"
        self.fd, other_end = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", chat_program.__name__, str(self.go_on)],
            stdin=other_end,
            stdout=other_end,
            stderr=other_end,
            env=environment(folder, kind),
            cwd=CHECKOUT,
            start_new_session=True,
        )
        os.close(other_end)
        self.seen = b""
        self.marks_pastes = False

    def type(self, typed: bytes) -> None:
        """Type or paste this into the session."""
        os.write(self.fd, typed)

    def read_until(self, text: bytes) -> str:
        """What is shown until this text comes, and the text itself."""
        while text not in self.seen:
            self.seen += os.read(self.fd, 1 << 16)
        end = self.seen.index(text) + len(text)
        shown, self.seen = self.seen[:end], self.seen[end:]
        return shown.decode()


def environment(folder: Path, kind: str) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(CHECKOUT),
        "TERM": kind,
        "INPUTRC": os.devnull,
    }


@pytest.fixture(params=["xterm-256color", "dumb"])
def terminal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal that marks pastes, and one that does not."""
    session = Terminal(tmp_path, request.param)
    session.marks_pastes = "\x1b[?2004h" in session.read_until(PROMPT)
    yield session
    session.process.kill()
    session.process.wait()
    os.close(session.fd)


def test_a_line_that_was_typed_before_the_question_answers_nothing(terminal: Terminal) -> None:
    terminal.type(b"SLOW CALL\n")
    terminal.read_until(b"MESSAGE")
    terminal.type(b"y\nye")
    terminal.go_on.touch()
    shown = terminal.read_until(QUESTION)
    assert "Discarded, since it was typed before this question: 'y\\nye'" in shown
    terminal.type(b"n\n")
    assert "ANSWER False None" in terminal.read_until(PROMPT)


def test_a_flood_before_the_question_is_shown_in_part(terminal: Terminal) -> None:
    terminal.type(b"SLOW CALL\n")
    terminal.read_until(b"MESSAGE")
    terminal.type(b"y\n" * 150)
    terminal.go_on.touch()
    shown = terminal.read_until(QUESTION)
    assert "this question: 'y\\ny" in shown
    assert "y\\n'…" in shown
    terminal.type(b"n\n")
    assert "ANSWER False None" in terminal.read_until(PROMPT)


def test_all_that_was_typed_is_discarded_however_much_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typed_lines, "BYTES_MAX", 10)
    monkeypatch.setattr(typed_lines, "QUIET_TENTHS", 5)
    outer, inner = pty.openpty()
    tty.setraw(inner)
    typing = threading.Thread(target=os.write, args=(outer, b"yes\n" * 10_000), daemon=True)
    typing.start()
    try:
        assert typed_lines.discard_typed(inner) == "yes\nyes\nye"
        typing.join(5)
        assert not typing.is_alive()
        assert not select.select([inner], [], [], 0)[0]
    finally:
        os.close(inner)
        os.close(outer)


@pytest.mark.parametrize(
    ("said", "approve", "reason"),
    [
        ("y", True, None),
        ("YES", True, None),
        ("/approve", True, None),
        ("/approve this one", True, None),
        ("/Approve", True, None),
        ("yes but not now", False, "yes but not now"),
        ("/deny", False, None),
        ("/deny this one", False, "this one"),
        ("/Deny this one", False, "this one"),
        ("n", False, None),
        ("", False, None),
        ("why", False, "why"),
    ],
)
def test_an_answer_is_a_yes_or_a_no_with_its_reason(
    said: str, approve: bool, reason: str | None
) -> None:
    answer = _answer({"tool_call_id": "call-1"}, said)
    assert (answer["approve"], answer["reason"]) == (approve, reason)


def test_a_question_is_answered_by_what_is_typed_after_it(terminal: Terminal) -> None:
    terminal.type(b"CALL\n")
    assert "Discarded" not in terminal.read_until(QUESTION)
    terminal.type(b"y\n")
    assert "ANSWER True None" in terminal.read_until(PROMPT)


def test_a_paste_of_several_lines_is_one_message(terminal: Terminal) -> None:
    lines = b"CALL this\ny\n\nthe end"
    if terminal.marks_pastes:
        lines = PASTE_BEGINS + lines + PASTE_ENDS
    terminal.type(lines + b"\n")
    shown = terminal.read_until(QUESTION)
    assert "MESSAGE 'CALL this\\ny\\n\\nthe end'" in shown
    assert "ANSWER" not in shown


def test_a_paste_while_the_agent_answers_is_one_message(terminal: Terminal) -> None:
    terminal.type(b"SLOW one\n")
    terminal.read_until(b"MESSAGE 'SLOW one'")
    terminal.type(b"line a\nline b\nline c\n")
    terminal.go_on.touch()
    assert "MESSAGE 'line a\\nline b\\nline c'" in terminal.read_until(b"line c'")


def test_lines_of_a_pipe_that_are_messages_answer_no_question(tmp_path: Path) -> None:
    lines = ["CALL", "y", "CALL", "/deny Not now", "CALL", "/approve", "/approve", "End"]
    ended = subprocess.run(
        [sys.executable, "-m", chat_program.__name__, "-"],
        input="\n".join(lines),
        env=environment(tmp_path, "dumb"),
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines() == [
        "MESSAGE 'CALL'",
        "MESSAGE 'y'",
        "MESSAGE 'CALL'",
        "ANSWER False 'Not now'",
        "MESSAGE 'CALL'",
        "ANSWER True None",
        "MESSAGE 'End'",
    ]
    assert "It waits: heeler approvals list" in ended.stderr
    assert "No question waits for an answer" in ended.stderr
