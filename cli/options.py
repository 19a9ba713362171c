"""The options that every command has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer
from typer import Option
from typer.core import TyperCommand, TyperGroup

from cli.exit_codes import CommandError, ExitCode

ELSEWHERE = ("remote", "url")  # options that name another server


@dataclass
class Options:
    """The options of this call of the command."""

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


def _keep(ctx: Any, parameter: Any, value: Any) -> Any:
    if value == "":  # of a variable that is not set: another server would be asked than is meant
        wrong = f"an empty text names no server: leave out --{parameter.name}, or give one"
        raise typer.BadParameter(wrong, ctx=ctx, param=parameter)
    if value:
        setattr(OPTIONS, parameter.name, value)
    return value


class Command(TyperCommand):
    """A command with the options that every command has. It refuses those of them that would have
    no effect."""

    refused: tuple[str, ...] = ()
    why_not_elsewhere = "is for the server on this machine"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for parameter in self.params:
            name_value(parameter)
        _add_shared(self.params)
        parameters: list[Any] = self.params
        for parameter in parameters:
            if parameter.name in self.refused:
                parameter.hidden = True

    def invoke(self, ctx: Any) -> Any:
        """Run it, where each option that was given has an effect. Raises CommandError."""
        for name in self.refused:
            if getattr(OPTIONS, name):
                why = self.why_not_elsewhere if name in ELSEWHERE else "prints no JSON"
                raise CommandError(
                    f"`{ctx.command_path}` {why}: leave out --{name}", ExitCode.USAGE
                )
        return super().invoke(ctx)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, also `--help`, which can be parsed without Pydantic."""
        return with_text_coercion(super().get_params(ctx))


class LocalCommand(Command):
    """A command for the server on this machine alone: it refuses to be asked for another, since
    `down --remote production` must not stop what is here."""

    refused: tuple[str, ...] = ELSEWHERE


class LocalTextCommand(LocalCommand):
    """One that hands the terminal over to what has no JSON."""

    refused = (*ELSEWHERE, "json")


class TextCommand(Command):
    """One that asks a server, and is a conversation: it has no JSON."""

    refused = ("json",)


class PageCommand(Command):
    """One that prints a text of its own, and asks no server."""

    refused = (*ELSEWHERE, "json")
    why_not_elsewhere = "asks no server"


class Group(TyperGroup):
    """Commands, with the same options before the name of one."""

    hides_shared = True  # its help says nothing of them: that of each command does

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _add_shared(self.params, hidden=self.hides_shared)

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, also `--help`, which can be parsed without Pydantic."""
        return with_text_coercion(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; one whose output nobody reads any more ends the same everywhere."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as closed:
            raise ClosedPipe from closed


class ClosedPipe(Exception):
    """The program that reads the output has ended. Typer would end with 1 on a BrokenPipeError."""


def name_value(parameter: Any) -> None:
    """Have the help say `--limit LIMIT` and `AGENT`, not `--limit <int range>` and `{agent} <str>`.
    Values that are chosen among a few stay listed."""
    is_argument = parameter.param_type_name == "argument"
    is_choice = parameter.type_descriptor.is_choice
    if is_argument or not (is_choice or getattr(parameter, "is_flag", False)):
        parameter.metavar = parameter.metavar or parameter.name.strip("_").upper()
    if is_argument and not is_choice:
        parameter.display_type_rich = lambda ctx: ""
    if is_argument:
        name = parameter.metavar
        name = name if parameter.nargs == 1 or "..." in name else f"{name}..."
        parameter._usage_display_name = lambda: name if parameter.required else f"[{name}]"


def _add_shared(parameters: list[Any], *, hidden: bool = False) -> None:
    own = {flag for parameter in parameters for flag in parameter.opts}
    for parameter in parameters_of(_shared, _keep):
        if own.isdisjoint(parameter.opts):
            parameter.hidden = hidden
            parameters.append(parameter)


def with_text_coercion(parameters: list[Any]) -> list[Any]:
    """The same parameters, whose texts need no Pydantic."""
    for parameter in parameters:
        if getattr(parameter, "_runtime_param", ...) is None:
            parameter._runtime_param = TextCoercion()
    return parameters


class TextCoercion:
    """Typer's conversion of a parameter's value, without Pydantic where the value is a text that
    stays one, or none: to load Pydantic takes longer than `status`."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value; of other types as Typer makes it. Raises BadParameter."""
        if value is None and not param.multiple and param.nargs != -1:
            return None
        if type(value) is param.type_descriptor.annotation:  # a text, or a default
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def parameters_of(options: Callable[..., None], keep: Callable[[Any, Any, Any], Any]) -> list[Any]:
    """The parameters of a function that has options for several commands; `keep` gets each value,
    and the commands do not."""
    app = typer.Typer(add_completion=False)
    app.command()(options)
    parameters = typer.main.get_command(app).params
    for parameter in parameters:
        parameter.expose_value = False
        parameter.callback = keep
    return parameters
