"""Runs as a program of its own: a web page on stdin becomes Markdown on stdout.

A page may be written so that reading it takes for ever, or all memory: then only this program ends.
"""

from __future__ import annotations

import resource
import sys
from html.parser import HTMLParser

CPU_SECONDS_MAX = 10
MEMORY_BYTES_MAX = 1 << 30
TEXT_CHARS_MAX = 1 << 20
UNSHOWN = (
    *("script", "style", "noscript", "template", "svg", "iframe", "form", "nav", "canvas"),
    *("head", "object", "button", "input", "select", "dialog"),
)


class TextOnly(HTMLParser):
    """The text of a page that is nested too deeply for more."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []

    def handle_data(self, data: str) -> None:
        """Keep the text between two tags."""
        self.parts.append(data)


def markdown_of(html: str) -> str:
    """A page as Markdown: its title, and of its parts the main one, if it says which that is."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for part in soup(UNSHOWN):
        part.decompose()
    main = soup.find("main") or soup.find("article") or soup.body or soup
    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(main)
    lines = [line.rstrip() for line in text.splitlines()]
    shown = [line for n, line in enumerate(lines) if line or (n and lines[n - 1])]
    head = [] if not title or any(line == f"# {title}" for line in shown) else [f"# {title}", ""]
    return "\n".join([*head, *shown]).strip()


def main() -> None:
    """Convert what comes on stdin."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MAX, CPU_SECONDS_MAX))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    html = sys.stdin.buffer.read().decode("utf-8", "replace")
    try:
        text = markdown_of(html)
    except RecursionError:
        parser = TextOnly()
        parser.feed(html)
        text = " ".join(" ".join(parser.parts).split())
    sys.stdout.buffer.write(text[:TEXT_CHARS_MAX].encode("utf-8", "replace"))


if __name__ == "__main__":
    main()
