"""Exit codes of the command; `docs/cli.md` lists them."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """0 is success; what fails says why on stderr."""

    OK = 0
    FAILED = 1  # the server failed, a check found something, a test did not pass
    USAGE = 2  # an unknown command, option or value
    NOT_FOUND = 3  # there is no such agent, block, file, ...
    REFUSED = 4  # the server or a check refused it: wrong values, a conflict, a limit
    UNREACHABLE = 5  # no server answers, or it does not let one in
    INTERRUPTED = 130  # Ctrl-C
    CLOSED_PIPE = 141  # as in `heeler agents list | head -1`


MEANINGS = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "something failed: the server, a check, or a test",
    ExitCode.USAGE: "an unknown command, option or value",
    ExitCode.NOT_FOUND: "there is nothing of that name or id",
    ExitCode.REFUSED: "refused: wrong values, a conflict, or a limit",
    ExitCode.UNREACHABLE: "no server answers, or it does not accept the key",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.CLOSED_PIPE: "the program that reads the output has ended",
}


class CommandError(Exception):
    """An error for the person at the keyboard; the text says what is wrong and how to fix it."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code
