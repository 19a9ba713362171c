"""How messages and answers are printed."""

from __future__ import annotations

import io
import sys

import pytest

from cli.markdown_writing import MarkdownWriter
from cli.message_printing import MessagePrinter, PlainWriter, call_text, one_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"label": "human", "limit": 5}', 'edit(label="human", limit=5)'),
        ("", "edit()"),
        ('{"label": ', 'edit({"label": )'),
        ("[1]", "edit([1])"),
    ],
)
def test_a_call_is_shown_as_one_writes_it(arguments: str, text: str) -> None:
    assert call_text({"name": "edit", "arguments": arguments}) == text


def test_what_is_long_is_cut_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("COLUMNS", "50")
    assert one_line("a\nb") == "  a b"
    assert len(one_line("word " * 50)) == 49


def test_parts_of_messages_become_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    printer = MessagePrinter(PlainWriter())
    thought = {"message_type": "reasoning_message", "otid": "1"}
    printer.show({**thought, "reasoning": "Let me "})
    printer.show({**thought, "reasoning": "see."})
    call = {"message_type": "tool_call_message", "otid": "2"}
    for part in ({"name": "look"}, {"arguments": '{"at":'}, {"arguments": ' "x"}'}):
        printer.show({**call, "tool_call": {"tool_call_id": "call_1", **part}})
    printer.show(
        {
            "message_type": "tool_return_message",
            "otid": "3",
            "status": "error",
            "tool_return": "No\nx",
        }
    )
    for text in ("Good ", "day"):
        printer.show({"message_type": "assistant_message", "otid": "4", "content": text})
    printer.show({"message_type": "assistant_message", "otid": "5", "content": "Bye.\n"})
    printer.end()
    printed = capsys.readouterr()
    assert printed.out == "Good day\nBye.\n"
    assert printed.err == '  ~ Let me see.\n  * look(at="x")\n  ✗ No x\n'


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_markdown_is_rendered_block_by_block(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")  # draws nothing again
    monkeypatch.setenv("COLUMNS", "60")
    text = (
        "# Tea\n\nIt is **hot**.\n\n```\na = 1\n\nb = 2\n```\n\n[Here](http://x.org) \x1b]0;no\x07"
    )
    writer = MarkdownWriter()
    for start in range(0, len(text), size):
        writer.feed(text[start : start + size])
    writer.end()
    writer.end()
    shown = " ".join(terminal.getvalue().split())
    for part in ("Tea", "It is hot.", "a = 1", "b = 2", "Here (http://x.org)"):
        assert shown.count(part) == 1
    assert "\x1b]" not in terminal.getvalue()
    assert "**" not in shown
