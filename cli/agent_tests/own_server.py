"""A server for tests alone: in a folder that is deleted afterwards, on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from cli.exit_codes import CommandError
from cli.server import Address, Server

# What says where the server of this machine is, and what lets one in there.
OF_OTHER_SERVERS = (
    "HEELER_API_KEY",
    "HEELER_HOME",
    "HEELER_HOST",
    "HEELER_PASSWORD",
    "HEELER_PORT",
    "HEELER_URL",
    "LETTA_SERVER_PASSWORD",
)


@contextmanager
def own_server(environment: Mapping[str, str] = os.environ) -> Iterator[Server]:
    """Start a server with the providers of the environment, and stop and delete it in the end.
    Raises CommandError where it does not start."""
    from deploy.embedded.postgres_location import folders_outside

    home = Path(tempfile.mkdtemp(prefix="heeler-agent-tests-"))
    home.chmod(0o755)  # the account that Postgres runs under may have to enter
    port = free_port()
    kept = {name: value for name, value in environment.items() if name not in OF_OTHER_SERVERS}
    settings = {**kept, "HEELER_HOME": str(home), "HEELER_PORT": str(port)}
    try:
        started = _launch("up", settings)
        if started.returncode:
            raise CommandError(f"No server could be started: {started.stderr or started.stdout}")
        yield Server(Address(f"http://127.0.0.1:{port}", None, "--start"))
    finally:
        _launch("down", settings)
        for folder in (*folders_outside(home), home):
            shutil.rmtree(folder, ignore_errors=True)


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _launch(word: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    from deploy.embedded.settings import CHECKOUT

    return subprocess.run(
        [sys.executable, "-m", "deploy.embedded", word],
        cwd=CHECKOUT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
