"""Answers as Markdown on a terminal, while they come."""

from __future__ import annotations

import sys
from io import StringIO

from cli.output import printable

FENCE = "```"


class MarkdownWriter:
    """Renders each paragraph, list or block of code when it is complete; what is not is shown as
    it grows. A whole answer that is drawn again and again would flicker and leave the screen.
    Addresses are shown: a link with another text could lead anywhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=sys.stdout)
        self._live: Live | None = None
        self._text = ""

    def feed(self, text: str) -> None:
        """Show more of the text."""
        self._text += printable(text, sys.stdout)
        while (end := _end_of_block(self._text)) is not None:
            self._stop()
            self._print(self._text[:end])
            self._text = self._text[end:]
        if self._text.strip():
            self._grow()

    def end(self) -> None:
        """Render what is left of the text."""
        self._stop()
        if self._text.strip():
            self._print(self._text)
        self._text = ""

    def _grow(self) -> None:
        from rich.live import Live
        from rich.markdown import Markdown

        if self._live is None:
            self._live = Live(
                console=self._console, transient=True, auto_refresh=False, redirect_stderr=False
            )
            self._live.start()
        self._live.update(Markdown(self._text, hyperlinks=False), refresh=True)

    def _stop(self) -> None:
        if self._live:
            self._live.stop()
        self._live = None

    def _print(self, text: str) -> None:
        from rich.markdown import Markdown

        if text.strip():
            self._console.print(Markdown(text, hyperlinks=False))


def _end_of_block(text: str) -> int | None:
    """Where the first block of the text ends: at an empty line that is not within code."""
    at, is_code = 0, False
    for line in StringIO(text):
        if line.lstrip().startswith(FENCE):
            is_code = not is_code
        at += len(line)
        if not is_code and not line.strip() and line.endswith("\n") and text[:at].strip():
            return at
    return None
