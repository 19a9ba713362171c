"""The `heeler` command in this process: what it printed, and how it ended."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli import options
from cli.__main__ import main

SETTINGS = ("HEELER_", "LETTA_", "NO_COLOR", "COLUMNS")  # of the person who runs the tests


@dataclass(frozen=True)
class Ended:
    """One call of the command that is over."""

    code: int
    out_bytes: bytes
    err: str

    @property
    def out(self) -> str:
        """What is on stdout, as a text."""
        return self.out_bytes.decode()

    @property
    def json(self) -> Any:
        """The only document on stdout."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The only document on stderr: what `--json` says of an error."""
        return json.loads(self.err)


class HeelerCommand:
    """Calls the command with the settings of nobody; files that it keeps are in `home`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, home: Path, url: str | None) -> None:
        self.monkeypatch = monkeypatch
        for name in [name for name in os.environ if name.startswith(SETTINGS)]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
        monkeypatch.setenv("HEELER_HOME", str(home / "server"))
        if url:
            monkeypatch.setenv("HEELER_URL", url)

    def run(self, *arguments: str, input: str | bytes = "") -> Ended:
        """Run one command, whatever its exit code is; stdin is a pipe with that input."""
        data = input.encode() if isinstance(input, str) else input
        out, err = _stream(), _stream()
        with self.monkeypatch.context() as changed, redirect_stdout(out), redirect_stderr(err):
            changed.setattr(sys, "stdin", _stream(data))
            try:
                code = main(arguments)
            finally:
                options.reset()  # for tests that call no command
        return Ended(code, _written(out), _written(err).decode())

    def __call__(self, *arguments: str, input: str | bytes = "") -> Ended:
        """Run one command that has to succeed."""
        ended = self.run(*arguments, input=input)
        assert ended.code == 0, f"heeler {' '.join(arguments)}: {ended}"
        return ended

    def json(self, *arguments: str, input: str | bytes = "") -> Any:
        """The document that a command prints with --json."""
        return self(*arguments, "--json", input=input).json


def _stream(data: bytes = b"") -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", write_through=True)


def _written(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue()
