"""A place where a server could run: a home, Postgres, NATS and a provider, each of which can be
broken; and the shell in which fixes are executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from deploy.doctor.examination import CHECKS, examine
from deploy.doctor.examined import Examined
from deploy.doctor.report import document
from deploy.embedded.settings import CHECKOUT

KEY = "sk-the-right-key-of-the-test"
WRONG_KEY = "sk-a-wrong-key-of-the-test"
# The first two start processes, and are made where they are what is tested; the last tells of what
# else runs on this machine.
LEFT_OUT = ("sandbox", "embedding", "memory")
FIX_SECONDS_MAX = 120


class Provider(ThreadingHTTPServer):
    """Speaks as OpenAI does, below /v1, to those who have the key; its clock can be wrong."""

    daemon_threads = True

    def __init__(self, clock: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.clock = clock  # a file: how many seconds it is ahead
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    """One request to the provider."""

    server: Provider

    def date_time_string(self, timestamp: float | None = None) -> str:
        """The Date of answers."""
        import time

        ahead = float(self.server.clock.read_text() or 0)
        return formatdate(time.time() + ahead, usegmt=True)

    def do_GET(self) -> None:
        """List the models."""
        if self.path != "/v1/models":
            return self.send_error(404)
        if self.headers.get("Authorization") != f"Bearer {KEY}":
            return self.send_error(401)
        body = json.dumps({"data": [{"id": "model-of-the-test"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *_: Any) -> None:
        """Say nothing on stderr."""


@contextmanager
def provider(clock: Path) -> Iterator[Provider]:
    """One that answers for as long as the block lasts."""
    clock.write_text("0")
    with Provider(clock) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()


@dataclass
class Site:
    """One installation, and its environment."""

    home: Path
    environment: dict[str, str]
    secrets: tuple[str, ...] = ()  # which no report may show
    kept: dict[str, Any] = field(default_factory=dict)  # what a fault needs until it is mended

    def examine(self, *chosen: str) -> list[dict[str, Any]]:
        """What the doctor finds that is wrong."""
        names = chosen or [name for name in CHECKS if name not in LEFT_OUT]
        examined = Examined(given=dict(self.environment))
        report = document(examined, examine(examined, names))
        shown = json.dumps(report)
        assert not [secret for secret in self.secrets if secret in shown]
        checks: Any = report["checks"]
        return [check for check in checks if check["state"] in ("warning", "problem")]

    def execute(self, fix: str, answers: Mapping[str, str]) -> None:
        """Type a fix into a shell, with what a person puts in the place of `<words>`; variables
        that it sets stay set."""
        for hint, answer in answers.items():
            fix = fix.replace(f"<{hint}>", shlex.quote(answer))
        assert not re.search(r"<[a-z]", fix), f"nobody says what this is: {fix}"
        file = self.home.parent / "environment"
        shell = subprocess.run(
            ["bash", "-ec", f"{fix}\nenv -0 >{shlex.quote(str(file))}"],
            cwd=CHECKOUT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FIX_SECONDS_MAX,
            check=False,
        )
        assert shell.returncode == 0, f"{fix}\n{shell.stdout}{shell.stderr}"
        lines = file.read_text().split("\0")
        self.environment = dict(line.split("=", 1) for line in lines if "=" in line)
        for name in ("_", "SHLVL", "PWD", "OLDPWD"):
            self.environment.pop(name, None)

    def stand_in(self, name: str, script: str) -> None:
        """A program of the machine that a fix calls, in the place of the real one."""
        folder = self.home.parent / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        path = self.environment["PATH"]
        self.environment["PATH"] = f"{folder}{os.pathsep}{path}"
