"""`heeler completion`: what a shell needs to complete commands, options and names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument

from cli.commands import Commands
from cli.exit_codes import CommandError
from cli.options import PageCommand

if TYPE_CHECKING:
    from cli.names import Noun

app = Commands()

VARIABLE = "_HEELER_COMPLETE"  # a shell sets it to ask for completions
NAMES_MAX = 200
ANSWER_SECONDS_MAX = 1.0


class Shell(StrEnum):
    """Shells that can be told how to complete."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"
    powershell = "powershell"


HOW = {
    Shell.bash: "heeler completion bash > ~/.local/share/bash-completion/completions/heeler",
    Shell.zsh: "heeler completion zsh > ~/.zfunc/_heeler, with fpath+=~/.zfunc before compinit",
    Shell.fish: "heeler completion fish > ~/.config/fish/completions/heeler.fish",
    Shell.powershell: "heeler completion powershell >> $PROFILE",
}


@app.command(cls=PageCommand)
def completion(shell: Annotated[Shell, Argument(help="The shell that is to complete.")]) -> None:
    """Print a script with which a shell completes commands, options and names of agents."""
    from typer._completion_shared import get_completion_script

    if sys.stdout.isatty():
        print(f"# {HOW[shell]}", file=sys.stderr)
    print(get_completion_script(prog_name="heeler", complete_var=VARIABLE, shell=shell))


def prepare() -> None:
    """Teach Typer the shells, where one of them asks."""
    if VARIABLE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()


def names_of(noun: Noun) -> Callable[[str], list[str]]:
    """Completes the names of a kind by those that the server has."""

    def complete(incomplete: str) -> list[str]:
        try:
            return [name for name in _known(noun) if name.startswith(incomplete)]
        except CommandError:
            return []

    return complete


def _known(noun: Noun) -> list[str]:
    """Names of a kind; none where the server does not answer soon. A shell would split others."""
    from letta_client import LettaError

    from cli.server import server

    client = server().letta.with_options(timeout=ANSWER_SECONDS_MAX, max_retries=0)
    query = {} if noun.is_whole else {"limit": NAMES_MAX}
    try:
        page: Any = client.get(noun.path, cast_to=object, options={"params": query})
        names = [entry[noun.field] for entry in (page[noun.inside] if noun.inside else page)]
    except (LettaError, KeyError, TypeError):  # no server, or one that is no Heeler
        return []
    return [name for name in names if name and not set(name) & set(" \t\n:")]
