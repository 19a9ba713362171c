"""`python -m cli.pages`: write docs/cli.md and docs/heeler.1 from the commands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cli import man, reference
from cli.exit_codes import MEANINGS
from cli.reference import Described, Parameter

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "cli.md"
MANUAL = DOCS / "heeler.1"

INTRODUCTION = """# The command `heeler`

This page is generated (`python -m cli.pages`): do not edit it. `heeler man` prints the same
as a manual page (`heeler man | man -l -`), `heeler COMMAND --help` what a command does.

`heeler` starts and looks after the server on this machine, and speaks to any server by its API:
nouns, then verbs. Where a command wants an agent, a tool or something else, a name does as well as
an id. Results are on stdout, everything else on stderr; with `--json` stdout has the document that
the API gave, and nothing else. `heeler completion bash` prints what a shell needs to complete
commands and names."""


def page_text() -> str:
    """docs/cli.md as the commands are now."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    yield "\n## Options of all commands\n"
    yield from _table(reference.options_of_all())
    yield "\nAn option that would have no effect is refused: `--remote` and `--url` by a command"
    yield "for the server on this machine alone, such as `heeler down`, and `--json` by one that"
    yield "prints no JSON, such as `heeler logs`. An address may end in `/` or `/v1`, and a server"
    yield "on this machine is asked without the proxy that the environment names."
    for title, commands in reference.described_sections():
        yield f"\n## {title}"
        for command in commands:
            yield from _command(command)
    yield "\n## Exit codes\n\n| code | meaning |\n|---|---|"
    yield from (f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items())
    yield "\n## Environment variables\n\n| variable | meaning |\n|---|---|"
    for names, meaning in reference.ENVIRONMENT.items():
        yield f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {meaning} |"
    yield "\n## Files\n\n| file | what is in it |\n|---|---|"
    yield from (f"| `{file}` | {content} |" for file, content in reference.FILES.items())


def _command(command: Described) -> Iterator[str]:
    yield f"\n### `{' '.join(command.words)}`\n" if command.is_group else f"\n`{command.usage}`\n"
    yield "\n".join(line.strip() for line in command.text.splitlines())
    if command.parameters:
        yield ""
        yield from _table(command.parameters)


def _table(parameters: tuple[Parameter, ...]) -> Iterator[str]:
    yield "| | |\n|---|---|"
    for parameter in parameters:
        yield f"| `{_cell(parameter.words)}` | {_cell(parameter.text)} |"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def main() -> None:
    """Write the reference and the manual page."""
    PAGE.write_text(page_text(), encoding="utf-8")
    MANUAL.write_text(man.page(), encoding="utf-8")


if __name__ == "__main__":
    main()
