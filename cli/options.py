"""The options that every command has."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand


@dataclass
class Options:
    """What was asked for in this call of the command."""

    json: bool = False
    quiet: bool = False
    remote: str | None = None
    url: str | None = None


OPTIONS = Options()


def reset() -> None:
    """Forget what an earlier call in this process asked for."""
    for field in fields(Options):
        setattr(OPTIONS, field.name, field.default)


def _shared(
    json: Annotated[bool, Option("--json", help="Print JSON alone on stdout.")] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Print results and errors only.")] = False,
    remote: Annotated[
        str | None, Option("--remote", metavar="NAME", help="Ask this server (heeler remote list).")
    ] = None,
    url: Annotated[
        str | None, Option("--url", metavar="URL", help="Ask the server at this address.")
    ] = None,
) -> None:
    """The options themselves."""


def _keep(_: Any, parameter: Any, value: Any) -> Any:
    if value:
        setattr(OPTIONS, parameter.name, value)
    return value


class Command(TyperCommand):
    """A command with the options that every command has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        own = {flag for parameter in self.params for flag in parameter.opts}
        for parameter in _parameters():
            if own.isdisjoint(parameter.opts):
                self.params.append(parameter)


def _parameters() -> list[Any]:
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    parameters = typer.main.get_command(app).params
    for parameter in parameters:
        parameter.expose_value = False
        parameter.callback = _keep
    return parameters
