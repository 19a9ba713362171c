"""Parts that modules of commands are made of, and their import when a command is called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import typer

from cli.options import Command, Group, LocalCommand, LocalTextCommand


class Commands(typer.Typer):
    """The commands of one module, formatted plainly: `rich` takes too long to import for help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(rich_markup_mode=None, add_completion=False, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """A verb; its docstring is its help."""
        return super().command(name, **{"cls": Command, **settings})

    def local_command(
        self, name: str | None = None, *, has_json: bool = True, **settings: Any
    ) -> Callable[[Any], Any]:
        """The same for the server on this machine alone."""
        return self.command(name, cls=LocalCommand if has_json else LocalTextCommand, **settings)


def noun(text: str) -> Commands:
    """Verbs of one noun: `app = noun("Agents.")`, then `@app.command()`."""
    app = Commands(cls=Group, no_args_is_help=True)

    @app.callback(help=text)
    def described() -> None:
        """Typer makes a group, also of one verb, where there is a callback."""

    return app


@dataclass(frozen=True)
class Entry:
    """A command of the root: what it does in a line, and the module whose `app` it is."""

    module: str
    text: str


@cache
def _imported(module: str, name: str) -> Any:
    command = typer.main.get_command(importlib.import_module(module).app)
    command.name = name
    return command


class LazyGroup(Group):
    """The root: sections of commands, each imported when it is called."""

    sections: Mapping[str, Mapping[str, Entry]] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        """In the order in which the help shows them."""
        return [name for entries in self.sections.values() for name in entries]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name; imports its module."""
        for entries in self.sections.values():
            if entry := entries.get(cmd_name):
                return _imported(entry.module, cmd_name)
        return None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As Typer does, with a suggestion, which it takes from commands that are imported."""
        unknown = self.get_command(ctx, args[0]) is None and not args[0].startswith("-")
        if unknown and not ctx.resilient_parsing:
            close = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """From the table, so that the help imports no command."""
        for title, entries in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, entry.text) for name, entry in entries.items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """From the table, too: a shell that completes the first word waits for no import."""
        from typer._click.shell_completion import CompletionItem

        return [
            CompletionItem(name, help=entry.text)
            for entries in self.sections.values()
            for name, entry in entries.items()
            if name.startswith(incomplete)
        ]
