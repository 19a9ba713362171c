"""All commands as their help describes them, with what they share: for the generated pages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import typer

OPTIONS_OF_ALL = ("--json", "--quiet", "--remote", "--url", "--help")

ENVIRONMENT = {
    "HEELER_URL, LETTA_BASE_URL": "The server that is asked, where no --url and no --remote is.",
    "HEELER_API_KEY, LETTA_API_KEY": (
        "The key or password for it. It goes to no server that has a name: those have their own."
    ),
    "HEELER_PASSWORD, LETTA_SERVER_PASSWORD": (
        "The password of the server on this machine, to start it and to ask it."
    ),
    "HEELER_HOME": "The folder in which the server on this machine keeps its data.",
    "HEELER_CONFIG": "Its configuration file; heeler.toml in that folder without.",
    "HEELER_PORT": "The port of its API; 8283 without.",
    "HEELER_TEMPLATES": "A folder of your own with templates, for `heeler create`.",
    "NO_COLOR": "Print no colours.",
    "XDG_CONFIG_HOME": "The folder of settings; ~/.config without.",
}
FILES = {
    "~/.config/heeler/remotes.toml": (
        "Servers by name, with their keys (heeler remote). Only its owner may read it."
    ),
    "$HEELER_HOME": "The data, the logs and the keys of the server on this machine.",
}
EXAMPLES = {
    "heeler up": "Start a server on this machine.",
    "heeler agents list --json": "The agents, as the API has them.",
    "heeler tools create roll_dice.py": "Make a tool of a Python function.",
    "heeler files upload handbook *.pdf": "Put files into a folder, until they can be searched.",
    "heeler agents list --remote production": "Ask another server (heeler remote add).",
}


@dataclass(frozen=True)
class Parameter:
    """An argument or an option of a command: how it is written, and what it says."""

    words: str
    text: str


@dataclass(frozen=True)
class Described:
    """A command, or a group of them, as its help describes it."""

    words: tuple[str, ...]  # ("heeler", "agents", "list")
    usage: str
    text: str
    parameters: tuple[Parameter, ...]
    is_group: bool


def described_sections() -> Iterator[tuple[str, list[Described]]]:
    """The sections of the help, each with its commands and their verbs."""
    from cli.__main__ import app

    root: Any = typer.main.get_command(app)
    context = root.context_class(root, info_name="heeler")
    for title, entries in root.sections.items():
        commands = [(name, root.get_command(context, name)) for name in entries]
        yield (
            title,
            [
                described
                for name, command in commands
                for described in _described(command, name, context)
            ],
        )


def options_of_all() -> tuple[Parameter, ...]:
    """The options that every command has."""
    from cli.__main__ import app

    root: Any = typer.main.get_command(app)
    context = root.context_class(root, info_name="heeler")
    return tuple(_parameters(root, context, shared=True))


def _described(command: Any, name: str, parent: Any) -> Iterator[Described]:
    context = command.context_class(command, info_name=name, parent=parent)
    is_group = hasattr(command, "list_commands")
    pieces = [piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]"]
    yield Described(
        words=tuple(context.command_path.split()),
        usage=" ".join([context.command_path, *([] if is_group else pieces)]),
        text=(command.help or "").strip(),
        parameters=tuple(_parameters(command, context)),
        is_group=is_group,
    )
    if is_group:
        for verb in command.list_commands(context):
            yield from _described(command.get_command(context, verb), verb, context)


def _parameters(command: Any, context: Any, *, shared: bool = False) -> Iterator[Parameter]:
    for parameter in command.get_params(context):
        if any(word in OPTIONS_OF_ALL for word in parameter.opts) != shared:
            continue
        if record := parameter.get_help_record(context):
            words, text = record
            yield Parameter(words, " ".join(text.split()))
