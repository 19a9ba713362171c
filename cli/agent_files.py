"""Agents as files: written, and made again from them."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Any

from typer import Argument, Option

from cli.exit_codes import CommandError, ExitCode
from cli.files_and_json import text_of, unreadable
from cli.imports import wait_for_import
from cli.names import AGENT, id_of
from cli.output import progress, say, show_lines
from cli.server import given, idempotency_key, server
from cli.verbs import name_or_id

FORMATS = ("heeler", "letta", "legacy")
IN_MEMORY_BYTES_MAX = 16 << 20  # of what comes by stdin; more is kept in a temporary file

Passphrase = Annotated[
    Path | None, Option(metavar="FILE", help="Seals secrets with the passphrase in this file.")
]


def export(
    agent: Annotated[str, name_or_id(AGENT)],
    file: Annotated[str, Argument(help="Where it is written; - is stdout.")] = "-",
    form: Annotated[
        str,
        Option(
            "--format",
            help="heeler (all of it), letta (a file for Letta, .af) or legacy (an older .af).",
        ),
    ] = FORMATS[0],
    at: Annotated[str | None, Option(help="As it was then: an event or a time.")] = None,
    passphrase_file: Passphrase = None,
    scrub_messages: Annotated[
        bool, Option("--scrub-messages", help="Without messages; letta and legacy.")
    ] = False,
) -> None:
    """Write an agent to a file.

    `heeler agents import` makes it again, with all that it has.
    """
    if form not in FORMATS:
        raise CommandError(f"--format {form}: use {', '.join(FORMATS)}", ExitCode.USAGE)
    if file == "-" and form == "heeler" and sys.stdout.isatty():
        raise CommandError("The file is packed: say into which, as ada.heeler.gz", ExitCode.USAGE)
    agent_id = id_of(server(), AGENT, agent)
    query = {"format": form, "at": at, "scrub_messages": scrub_messages or None}
    with _target(file) as writing, progress("Exporting") as done:
        bytes_done = 0
        for data in _download(agent_id, query, _passphrase(passphrase_file)):
            writing.write(data)
            bytes_done += len(data)
            done(bytes_done)
    say(f"Wrote {bytes_done} bytes.")


def import_(
    file: Annotated[str, Argument(help="A file of any form; - is stdin.")],
    name: Annotated[str | None, Option(help="What the agent is called.")] = None,
    model: Annotated[str | None, Option(help="Its model, instead of that of the file.")] = None,
    conflicts: Annotated[
        str | None, Option(help="fail, replace, merge, copy or continue, where ids are taken.")
    ] = None,
    accept_tools: Annotated[
        bool, Option("--accept-tools", help="Trust the code of tools in the file.")
    ] = False,
    strip_messages: Annotated[bool, Option("--strip-messages", help="Without messages.")] = False,
    passphrase_file: Passphrase = None,
) -> None:
    """Make agents from a file, all or none of them."""
    query = {
        "background": True,
        "name": name,
        "model": model,
        "conflicts": conflicts,
        "accept_tools": accept_tools or None,
        "strip_messages": strip_messages or None,
    }
    with _source(file) as (file_name, reading):
        begun = _upload(file_name, reading, query, _passphrase(passphrase_file))
    document = wait_for_import(begun, "Importing")
    show_lines(document["agent_ids"], document)
    for entry in document["left_out"] or ():
        say(f"Left out or changed: {entry if isinstance(entry, str) else _left_out(entry)}")


def _left_out(entry: Any) -> str:
    return ": ".join(str(value) for value in entry.values())


def _passphrase(file: Path | None) -> dict[str, str]:
    return {} if file is None else {"X-Heeler-Passphrase": text_of(file).strip()}


def _download(agent_id: str, query: dict[str, Any], headers: dict[str, str]) -> Iterator[bytes]:
    with server().letta.agents.with_streaming_response.export_file(
        agent_id, extra_query=given(query), extra_headers=headers
    ) as answer:
        yield from answer.iter_bytes()


def _upload(
    file_name: str, reading: IO[bytes], query: dict[str, Any], headers: dict[str, str]
) -> Any:
    answer = server().letta.agents.with_raw_response.import_file(
        file=(file_name, reading),
        extra_query=given(query),
        extra_headers={**headers, **idempotency_key()},
    )
    return answer.http_response.json()


@contextmanager
def _target(file: str) -> Iterator[IO[bytes]]:
    """The stream to write to; a file has the name only when it is complete."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as beside:
            try:
                yield beside
                beside.flush()
                os.replace(beside.name, path)
            except BaseException:
                os.unlink(beside.name)
                raise
    except OSError as problem:
        raise CommandError(f"Cannot write {path}: {problem.strerror}", _code(problem)) from problem


def _code(problem: OSError) -> ExitCode:
    return ExitCode.NOT_FOUND if isinstance(problem, FileNotFoundError) else ExitCode.FAILED


@contextmanager
def _source(file: str) -> Iterator[tuple[str, IO[bytes]]]:
    """The name and the bytes of a file, which may be read twice."""
    if file != "-":
        try:
            with open(file, "rb") as reading:
                yield Path(file).name, reading
        except OSError as problem:
            raise unreadable(Path(file), problem) from problem
        return
    with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES_MAX) as kept:
        while data := sys.stdin.buffer.read(io.DEFAULT_BUFFER_SIZE):
            kept.write(data)
        kept.seek(0)
        yield "stdin", kept
