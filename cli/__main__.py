"""`heeler`: what it can be asked, and how what goes wrong is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from cli import completion, options
from cli.commands import Commands, Entry, LazyGroup
from cli.exit_codes import CommandError, ExitCode

SECTIONS = {
    "The server on this machine": {
        "up": Entry("cli.local.up", "Start it, wait until all is healthy"),
        "down": Entry("cli.local.down", "Stop it"),
        "status": Entry("cli.local.status", "Show what runs, and whether it is healthy"),
        "doctor": Entry("cli.local.doctor", "Find what is wrong, and say how to mend it"),
        "logs": Entry("cli.local.logs", "Follow what it logs"),
        "watch": Entry("cli.local.watch", "Print the messages on its bus"),
        "psql": Entry("cli.local.psql", "Open its database"),
        "admin": Entry("cli.admin", "Rebuild, back up, restore it; its dead letters"),
        "config": Entry("cli.config", "What is set, and by what; check it; load it anew"),
    },
    "Agents and what belongs to them": {
        "create": Entry("cli.create", "Make a new agent of a TOML file"),
        "validate": Entry("cli.validate", "Find what is wrong with the TOML files of agents"),
        "apply": Entry("cli.apply", "Make agents what their TOML files say"),
        "diff": Entry("cli.diff", "Show how agents differ from their TOML files"),
        "export": Entry("cli.export", "Write agents to TOML files, or to files of their own forms"),
        "agents": Entry("cli.agents", "List, make, ask, change, compare and delete agents"),
        "blocks": Entry("cli.blocks", "Memory blocks: read, change, compare, undo, share"),
        "runs": Entry("cli.runs", "What agents answered, step by step; replay and cancel"),
        "approvals": Entry("cli.approvals", "Tool calls that wait for a yes or no"),
        "test": Entry("cli.testing", "Try scenarios on fresh agents"),
        "tools": Entry("cli.tools", "What agents may call: from your own Python files, too"),
        "mcp": Entry("cli.mcp", "MCP servers, whose tools agents may call"),
        "files": Entry("cli.files", "Folders and files that agents open and search"),
        "archives": Entry("cli.archives", "Long-term memory that agents search, and its passages"),
        "models": Entry("cli.models", "The models that agents may have"),
    },
    "Many agents": {
        "groups": Entry("cli.groups", "Agents that answer together"),
        "schedules": Entry("cli.schedules", "Have agents act at a time, or again and again"),
        "batches": Entry("cli.batches", "Many messages by one request"),
        "templates": Entry("cli.templates", "Agents as saved values, from which others are made"),
        "identities": Entry("cli.identities", "Whom agents and blocks are about"),
        "projects": Entry("cli.projects", "Agents that belong together"),
    },
    "Moving in": {
        "migrate": Entry("cli.migrate", "Take over the agents of a Letta server, or of YAML"),
    },
    "The command itself": {
        "remote": Entry("cli.remote", "The servers that the command knows by name"),
        "completion": Entry("cli.completion", "Have a shell complete commands and names"),
        "man": Entry("cli.man", "Print the manual page"),
        "version": Entry("cli.version", "The version of the command, and of the server"),
    },
}


class Root(LazyGroup):
    """All commands."""

    sections = SECTIONS
    hides_shared = False


app = Commands(cls=Root, no_args_is_help=True)


@app.callback()
def root() -> None:
    """A server for stateful AI agents, and the agents on it.

    `heeler COMMAND --help` says more of each. These options may stand behind every command:
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--version"]:  # as of other commands
        given[0] = "version"
    options.reset()
    completion.prepare()
    try:
        code = typer.main.get_command(app)(given, prog_name="heeler", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, options.ClosedPipe):
        return _leave_pipe()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.FAILED
    except typer.TyperException as problem:
        return _tell_usage(problem, as_json="--json" in given)
    except CommandError as problem:
        return _tell(problem)
    except Exception as problem:
        return _tell(_explanation(problem))
    return code or ExitCode.OK


def _tell_usage(problem: Any, *, as_json: bool) -> int:
    """What Typer says of commands and options; some of it before --json was read."""
    if as_json:
        _print_error(problem.format_message(), problem.exit_code)
    else:
        problem.show()
    return int(problem.exit_code)


def _tell(problem: CommandError) -> int:
    if options.OPTIONS.json:
        _print_error(str(problem), problem.code)
    else:
        from cli.output import printable

        print(printable(str(problem), sys.stderr), file=sys.stderr)
    return problem.code


def _print_error(message: str, code: int) -> None:
    import json

    print(json.dumps({"error": message, "exit_code": int(code)}), file=sys.stderr)


def _leave_pipe() -> int:
    """Nobody reads stdout any more: what Python still holds for it goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return ExitCode.CLOSED_PIPE


def _explanation(problem: Exception) -> CommandError:
    """What a command did not expect, in words. Raises it again where there are none."""
    launcher = sys.modules.get("deploy.embedded.settings")
    if launcher and isinstance(problem, launcher.LaunchError):
        return CommandError(str(problem))
    if isinstance(problem, PermissionError) and problem.filename:
        return CommandError(f"No access to {problem.filename}: it belongs to somebody else")
    if isinstance(problem, OSError) and problem.filename:
        return CommandError(f"{problem.filename}: {problem.strerror}")
    if "letta_client" in sys.modules:
        from cli.api_problems import explanation

        if told := explanation(problem):
            return told
    raise problem


if __name__ == "__main__":
    sys.exit(main())
