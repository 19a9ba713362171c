"""`heeler`: what it can be asked, and how what goes wrong is told."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import typer

from cli import completion, options
from cli.commands import Commands, Entry, LazyGroup
from cli.exit_codes import CommandError, ExitCode

# Of a stream, not of a file that has a name.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

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
        "fleet": Entry("cli.fleets", "Agents of files: which, what was applied, and undo"),
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
    _prepare_streams()
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
    except OSError as problem:
        if problem.errno not in UNWRITABLE or problem.filename:
            return _tell(_explanation(problem))
        _leave(sys.stdout)
        return _tell(CommandError(f"The output cannot be written: {problem.strerror}"))
    except Exception as problem:
        return _tell(_explanation(problem))
    return code or ExitCode.OK


def _prepare_streams() -> None:
    """Have stdout and stderr take all that is printed: a character that they do not have is written
    as its number, and one that is closed takes nothing. A closed stdin is an empty one, and bytes
    of it that are no UTF-8 are no error until they are sent."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    elif isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="surrogateescape")
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = open(os.devnull, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
            setattr(sys, name, nowhere)
        elif isinstance(stream, io.TextIOWrapper) and stream.errors != "backslashreplace":
            stream.reconfigure(errors="backslashreplace")


def _tell_usage(problem: Any, *, as_json: bool) -> int:
    """Print Typer's usage error, which may have occurred before --json was read; the exit code."""
    if as_json:
        _print_error(problem.format_message(), problem.exit_code)
    else:
        shown = io.StringIO()
        problem.show(shown)
        _print_last(shown.getvalue(), end="")
    return int(problem.exit_code)


def _tell(problem: CommandError) -> int:
    if options.OPTIONS.json:
        _print_error(str(problem), problem.code)
    else:
        from cli.output import printable

        _print_last(printable(str(problem), sys.stderr))
    return problem.code


def _print_error(message: str, code: int) -> None:
    import json

    _print_last(json.dumps({"error": message, "exit_code": int(code)}))


def _print_last(text: str, *, end: str = "\n") -> None:
    """Print on stderr, behind what is on stdout. Where that cannot be, the exit code says it."""
    try:
        sys.stdout.flush()
    except OSError:
        _leave(sys.stdout)
    try:
        print(text, end=end, file=sys.stderr, flush=True)
    except OSError:
        _leave(sys.stderr)


def _leave_pipe() -> int:
    """Nobody reads stdout any more."""
    _leave(sys.stdout)
    return ExitCode.CLOSED_PIPE


def _leave(stream: TextIO) -> None:
    """Discard the text that Python still holds for a stream."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _explanation(problem: Exception) -> CommandError:
    """An unexpected exception in words. Raises it again where there are none."""
    launcher = sys.modules.get("deploy.embedded.settings")
    if launcher and isinstance(problem, launcher.LaunchError):
        return CommandError(str(problem))
    if isinstance(problem, PermissionError) and problem.filename:
        return CommandError(f"No access to {problem.filename}: it belongs to somebody else")
    if isinstance(problem, OSError) and problem.filename:
        return CommandError(f"{problem.filename}: {problem.strerror}")
    if isinstance(problem, UnicodeEncodeError):
        return CommandError("A text or a name has bytes that are no UTF-8", ExitCode.USAGE)
    if "letta_client" in sys.modules:
        from cli.api_problems import explanation

        if refusal := explanation(problem):
            return refusal
        if refusal := _other_server():  # whose answers have another form
            return refusal
    raise problem


def _other_server() -> CommandError | None:
    """That the server of this call is no Heeler; None if it is one."""
    from cli.api_problems import is_heeler, no_heeler
    from cli.server import address

    try:
        url = address().url
        return None if is_heeler(url) else no_heeler(url)
    except CommandError as refusal:
        return refusal


if __name__ == "__main__":
    sys.exit(main())
