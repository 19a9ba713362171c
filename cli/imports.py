"""An import that goes on: how far it is, and what came of it."""

from __future__ import annotations

from contextlib import suppress
from time import sleep
from typing import Any

from cli.exit_codes import CommandError, ExitCode
from cli.output import progress, say
from cli.server import server

LOOK_SECONDS, LOOK_SECONDS_MAX = 0.05, 1.0
ENDED = {"completed", "failed", "cancelled"}


def wait_for_import(document: Any, title: str) -> Any:
    """The import when it has ended; Ctrl-C takes it back. Raises CommandError if it fails."""
    path, pause = f"/v1/imports/{document['id']}", LOOK_SECONDS
    with progress(title, document["lines"]) as done:
        try:
            while document["status"] not in ENDED:
                sleep(pause)
                pause = min(1.5 * pause, LOOK_SECONDS_MAX)
                document = server().get(path)
                done(document["lines_done"], document["lines"])
        except KeyboardInterrupt:
            _cancel(path)
            raise
    if document["status"] != "completed":
        raise _failure(document)
    return document


def _cancel(path: str) -> None:
    """Take an import back, unless it has just ended."""
    import letta_client

    with suppress(letta_client.APIStatusError):
        server().post(f"{path}/cancel")
    document = server().get(path)
    say(f"{document['id']}: {document['status']}")


def _failure(document: Any) -> CommandError:
    errors = [_words(error) for error in document["errors"] or ()]
    why = [document["reason"], *errors] if document["reason"] else errors
    text = "\n".join(why) or f"The import {document['id']} ended as {document['status']}"
    is_refused = bool(errors) or document["is_conflict"]
    return CommandError(text, ExitCode.REFUSED if is_refused else ExitCode.FAILED)


def _words(error: Any) -> str:
    """An error as people read it: where in the file it is, and what is wrong there."""
    if isinstance(error, dict):
        return ": ".join(str(value) for value in error.values() if value is not None)
    return str(error)
