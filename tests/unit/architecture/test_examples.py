"""What the pages tell a reader to type is there: routes, commands with their options, targets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import reference
from services.api.app import HANDLERS

CHECKOUT = Path(__file__).resolve().parents[3]
PAGES = sorted([*(CHECKOUT / "docs").glob("*.md"), *CHECKOUT.glob("*.md")])
SHELL = re.compile(r"^```(?:sh|bash|shell)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
NAMED_ROUTE = re.compile(r"`(GET|POST|PUT|PATCH|DELETE) (/(?:v1|agents)/(?:\{[^}]*\}|[^\s`?{])+)")
PAGE_IDS = [str(page.relative_to(CHECKOUT)) for page in PAGES]
# The pages that compare with routes which only the genuine server has.
OF_V1 = {"compatibility.md", "CHANGELOG.md"}


def pattern(path: str) -> re.Pattern[str]:
    """The paths that a route answers; a parameter stands for any part."""
    parts = re.split(r"\{[^}]*\}", path)
    return re.compile(r"[^/]+".join(map(re.escape, parts)) + "/?")


ROUTES = [
    (method, pattern(path))
    for handler in HANDLERS
    for path in handler.paths
    for method in handler.http_methods
]


def is_served(method: str, path: str) -> bool:
    return any(method == verb and route.fullmatch(path) for verb, route in ROUTES)


def lines(page: Path) -> Iterator[str]:
    """The commands in a page's blocks, continued lines as one."""
    for block in SHELL.findall(page.read_text()):
        yield from block.replace("\\\n", " ").splitlines()


def asked(line: str) -> tuple[str, str] | None:
    """The method and the path of a request by curl; None where the line has none."""
    found = re.search(r"curl\b.*?(?:\$HEELER|(?:localhost|127\.0\.0\.1):\d+)(/[^\s\"'?]*)", line)
    if found is None:
        return None
    wanted = re.search(r"-X (\w+)", line)
    sends = re.search(r"\s(-d|-F|--json|--data-binary)\b", line)
    return (wanted[1] if wanted else "POST" if sends else "GET"), found[1]


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_the_requests_of_a_page_are_served(page: Path) -> None:
    requests = [request for line in lines(page) if (request := asked(line))]
    if page.name not in OF_V1:
        requests += NAMED_ROUTE.findall(page.read_text())
    missing = [
        f"{method} {path}"
        for method, path in requests
        if not path.startswith("/v1/...")
        and not is_served(method, re.sub(r"\{[^}]*\}|\$\w+", "x", path))
    ]
    assert missing == []


COMMANDS = {
    command.words: {word for each in command.parameters for word in each.words.split()}
    for _, commands in reference.described_sections()
    for command in commands
}
OF_ALL = {"--json", "--quiet", "--remote", "--url", "--help", "-q", "-h"}


def command_of(words: list[str]) -> tuple[str, ...] | None:
    """The longest command that these words begin with."""
    lengths = range(len(words), 1, -1)
    return next((key for n in lengths if (key := tuple(words[:n])) in COMMANDS), None)


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_the_commands_of_a_page_and_their_options_are_there(page: Path) -> None:
    for line in lines(page):
        for typed in re.findall(r"(?:^|[|(] *)(?:\./)?(heeler [a-z][^|#]*)", line):
            words = shlex.split(typed.split(" && ")[0])
            command = command_of(words)
            assert command is not None, line
            options = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
            known = {option.rstrip(",") for option in COMMANDS[command]} | OF_ALL
            assert options <= known, (line, options - known)


@pytest.mark.parametrize("page", PAGES, ids=PAGE_IDS)
def test_the_targets_of_a_page_are_in_the_makefile(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text()
    typed = [*lines(page), *SPAN.findall(text)]
    named = {found[1] for line in typed if (found := re.match(r"make ([a-z][a-z-]*)", line))}
    assert named <= targets
