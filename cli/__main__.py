"""`heeler`: what it can be asked, and how what goes wrong is told."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from cli import options
from cli.commands import Commands, Entry, LazyGroup
from cli.exit_codes import CommandError, ExitCode

SECTIONS = {
    "The server on this machine": {
        "up": Entry("cli.local.up", "Start it, wait until all is healthy"),
        "down": Entry("cli.local.down", "Stop it"),
        "status": Entry("cli.local.status", "Show what runs, and whether it is healthy"),
    },
    "Agents and what belongs to them": {
        "agents": Entry("cli.agents", "List, make, ask, change, compare and delete agents"),
    },
    "The command itself": {
        "remote": Entry("cli.remote", "The servers that the command knows by name"),
        "version": Entry("cli.version", "The version of the command, and of the server"),
    },
}


class Root(LazyGroup):
    """All commands."""

    sections = SECTIONS


app = Commands(cls=Root, no_args_is_help=True)


@app.callback()
def root() -> None:
    """A server for stateful AI agents, and the agents on it.

    Options of all commands: --json, --quiet, --remote, --url. `heeler COMMAND --help` has the rest.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    options.reset()
    try:
        typer.main.get_command(app)(
            list(sys.argv[1:] if arguments is None else arguments), prog_name="heeler"
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.FAILED
    except CommandError as problem:
        return _tell(problem)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except Exception as problem:
        return _tell(_explanation(problem))
    return ExitCode.OK


def _tell(problem: CommandError) -> int:
    if options.OPTIONS.json:
        import json

        print(json.dumps({"error": str(problem), "exit_code": int(problem.code)}), file=sys.stderr)
    else:
        print(problem, file=sys.stderr)
    return problem.code


def _explanation(problem: Exception) -> CommandError:
    """What a command did not expect, in words. Raises it again where there are none."""
    launcher = sys.modules.get("deploy.embedded.settings")
    if launcher and isinstance(problem, launcher.LaunchError):
        return CommandError(str(problem))
    if "letta_client" in sys.modules:
        from cli.api_problems import explanation

        if told := explanation(problem):
            return told
    raise problem


if __name__ == "__main__":
    sys.exit(main())
