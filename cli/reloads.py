"""Ask a server to load its configuration anew: here by a signal, elsewhere by HTTP."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.exit_codes import CommandError, ExitCode
from cli.output import say
from cli.server import address, home, server

if TYPE_CHECKING:
    from deploy.embedded.state import ProcessMark

PATH = "/v1/admin/configuration"
POLL_SECONDS = 0.1
END_SECONDS_MAX = 900.0
RUNNING = "running"  # the phase of the server
UNFINISHED = ("checking", "applying")

Read = Callable[[], Any]


def ask_for_reload() -> tuple[Read, int]:
    """The reader of attempts, and the number of the one that was asked for or a later one."""
    from deploy.embedded.state import HomeLock, read_state

    local = address().origin == "this machine" and home().exists()
    supervisor = HomeLock(home()).holder() if local else None
    if supervisor is None:
        document = server().post(f"{PATH}/reload")
        return read_remote, document["reloads"][-1]["number"]
    before, state = read_local(home()), read_state(home())
    if before is None or state is None or state.phase != RUNNING:
        raise CommandError("The server starts or stops: try again when it is up")
    try:
        os.kill(supervisor.pid, signal.SIGHUP)
    except PermissionError:
        raise CommandError("The server belongs to another user: ask as that user") from None
    number = latest_number(before) + 1
    return lambda: read_of(supervisor, number), number


def wait_for_end(read: Read, number: int) -> Any:
    """The document when the attempt has ended. Raises CommandError where it says nothing new for
    too long."""
    deadline, status, known = time.monotonic() + END_SECONDS_MAX, "", None
    while time.monotonic() < deadline:
        document = read()
        if document is not None and document != known:
            deadline, known = time.monotonic() + END_SECONDS_MAX, document
        if document is not None and latest_number(document) >= number:
            found = document["reloads"][-1]["status"]
            if found not in UNFINISHED:
                return document
            if found != status:
                status = found
                say(f"{status} ...")
        time.sleep(POLL_SECONDS)
    raise CommandError(f"The configuration was not loaded within {END_SECONDS_MAX:g} s")


def latest_number(document: Any) -> int:
    """The number of the latest attempt; 0 before the first."""
    return document["reloads"][-1]["number"] if document["reloads"] else 0


def read_local(folder: Path) -> Any:
    """The supervisor's report; None where there is none yet."""
    from deploy.embedded.applied_configuration import FILE

    try:
        return json.loads((folder / FILE).read_text())
    except (OSError, ValueError):
        return None


def read_of(supervisor: ProcessMark, number: int) -> Any:
    """A supervisor's report. Raises CommandError where it was stopped before the attempt ended."""
    runs = supervisor.process() is not None  # looked at first: it may say its last word meanwhile
    document = read_local(home())
    ended = document is not None and latest_number(document) >= number
    if not runs and not (ended and document["reloads"][-1]["status"] not in UNFINISHED):
        raise CommandError("The server was stopped meanwhile: it reads the file when it starts")
    return document


def read_remote() -> Any:
    """The server's report; None while its api is replaced. Raises CommandError where it has a new
    password by now."""
    from letta_client import APIConnectionError, AuthenticationError, InternalServerError

    try:
        return server().get(PATH)
    except AuthenticationError:
        raise CommandError(
            "The server does not accept this password any more: that of the new configuration"
            " holds. Give it in HEELER_API_KEY to see how the reload ends",
            ExitCode.UNREACHABLE,
        ) from None
    except (APIConnectionError, InternalServerError):
        return None
