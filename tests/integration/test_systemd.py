"""The unit of systemd: it is right, and its command does what systemd expects of it."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from deploy.embedded.api_health import read_health
from deploy.embedded.settings import CHECKOUT
from deploy.embedded.state import InstanceState
from tests.integration.test_launcher import DUMMIES
from tests.servers import DOWN_SECONDS_MAX, HeelerInstance

UNIT = CHECKOUT / "deploy" / "systemd" / "heeler.service"
INSTALLED_IN = "/opt/heeler"
READY_SECONDS_MAX = 120
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} \w+ ")


def service() -> dict[str, str]:
    """The settings of the unit's service, as of an installation in this checkout."""
    unit = RawConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(UNIT.read_text().replace(INSTALLED_IN, str(CHECKOUT)))
    return dict(unit["Service"])


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace(INSTALLED_IN, str(CHECKOUT)))
    checked = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_the_unit_leaves_the_sandbox_what_it_needs() -> None:
    options = service()
    closed = {
        *("RestrictNamespaces", "SystemCallFilter", "ProtectProc", "ProcSubset", "PrivateUsers"),
        *("ProtectKernelTunables", "ProtectKernelLogs", "MemoryDenyWriteExecute"),
    }
    assert not closed & options.keys()
    assert options["NoNewPrivileges"] == "yes"


def test_systemd_waits_for_longer_than_a_stop_takes() -> None:
    assert float(service()["TimeoutStopSec"]) > DOWN_SECONDS_MAX


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_of_the_unit_starts_says_so_and_ends_all(
    number: signal.Signals, tmp_path: Path
) -> None:
    instance = HeelerInstance(env=DUMMIES)
    with notified(tmp_path / "notify") as heard:
        instance.env["NOTIFY_SOCKET"] = str(tmp_path / "notify")
        log = (tmp_path / "log").open("w+")
        process = subprocess.Popen(
            shlex.split(service()["ExecStart"]),
            cwd=service()["WorkingDirectory"],
            env=instance.environment(),
            stdout=log,
            stderr=log,
        )
        try:
            said = [next(heard)]
            while not said[-1].startswith("READY=1"):
                said.append(next(heard))
            state = instance.state()
            assert read_health("127.0.0.1", instance.port).all_ok
            assert (instance.home / "lock").read_text() == str(process.pid)

            process.send_signal(number)
            assert process.wait(READY_SECONDS_MAX) == 0
        finally:
            process.kill()
            instance.close()
    assert "STATUS=migrating" in said
    assert alive(state) == []
    lines = (tmp_path / "log").read_text().splitlines()
    assert [line for line in lines if "started, pid" in line and TIMESTAMP.match(line)]


@contextmanager
def notified(path: Path) -> Iterator[Iterator[str]]:
    """The socket of systemd, and what comes to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(path))
        receiver.settimeout(READY_SECONDS_MAX)
        yield iter(lambda: receiver.recv(4_096).decode(), "")


def alive(state: InstanceState) -> list[str]:
    """The parts of which a process is left."""
    marks = [(part.name, part.mark) for part in state.parts.values()]
    return [name for name, mark in marks if mark and psutil.pid_exists(mark.pid) and mark.process()]
