"""The options of the commands that take the files of a fleet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from cli.options import Command, name_value, parameters_of


@dataclass
class FleetOptions:
    """The options of this call of the command."""

    file: tuple[Path, ...] = ()
    fleet: str | None = None
    adopt: bool = False
    reset_memory: tuple[str, ...] = ()
    prune_max: int | None = None
    environment: str | None = None
    rules: Path | None = None


def _fleet_options(
    file: Annotated[
        list[Path],
        Option("--file", "-f", help="A TOML file, or a folder of them; may be repeated."),
    ] = [],  # noqa: B006
    fleet: Annotated[
        str | None,
        Option(
            metavar="NAME", help="Which fleet the files are of, before what heeler-fleet.toml says."
        ),
    ] = None,
    adopt: Annotated[
        bool,
        Option(
            "--adopt",
            help="Take over agents, tools, MCP servers, shared blocks and groups that others have"
            " made; agents keep what they remember.",
        ),
    ] = False,
    reset_memory: Annotated[
        list[str],
        Option(
            metavar="NAME",
            help="Write the values of the files over what the agent of this name made of its memory"
            " blocks, or over the shared block of this label; may be repeated.",
        ),
    ] = [],  # noqa: B006
    prune_max: Annotated[
        int | None,
        Option(
            min=0,
            help="How many agents --prune may delete; without it a fifth of the fleet, and five"
            " in any case.",
        ),
    ] = None,
    environment: Annotated[
        str | None,
        Option(
            "--environment",
            "-e",
            metavar="NAME",
            help="An environment of heeler-fleet.toml: its server, variables and limits; and whose"
            " security rules hold: development, staging or production.",
        ),
    ] = None,
    rules: Annotated[
        Path | None, Option(metavar="FILE", help="Security rules of your own, as TOML.")
    ] = None,
) -> None:
    """The options themselves."""


class FleetCommand(Command):
    """A command with these options, which `fleet_options()` has while it runs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        options = parameters_of(_fleet_options, _keep)
        for parameter in options:
            name_value(parameter)
        self.params[:0] = options


_asked = FleetOptions()


def _keep(_: Any, parameter: Any, value: Any) -> Any:
    setattr(_asked, parameter.name, tuple(value) if isinstance(value, list) else value)
    return value


def fleet_options() -> FleetOptions:
    """The options of this call of the command."""
    return _asked
