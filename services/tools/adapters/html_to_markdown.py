"""A web page as Markdown.

A page may be written so that reading it takes for ever, or all memory: it is read in a process of
its own.
"""

from __future__ import annotations

from html.parser import HTMLParser

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
    """A page as Markdown, or its text alone where it is nested too deeply for more."""
    try:
        text = main_part_of(html)
    except RecursionError:
        parser = TextOnly()
        parser.feed(html)
        text = " ".join(" ".join(parser.parts).split())
    return text[:TEXT_CHARS_MAX]


def main_part_of(html: str) -> str:
    """A page as Markdown: its title, and of its parts the main one, if it says which that is."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    soup = BeautifulSoup(html, "html.parser")
    title = soup.title.get_text(" ", strip=True) if soup.title else ""
    for part in soup(UNSHOWN):
        part.decompose()
    main = soup.find("main") or soup.find("article") or soup.body or soup
    text = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(main)
    lines = [line.rstrip() for line in text.split("\n")]
    shown = [line for n, line in enumerate(lines) if line or (n and lines[n - 1])]
    head = [] if not title or any(line == f"# {title}" for line in shown) else [f"# {title}", ""]
    return "\n".join([*head, *shown]).strip()
