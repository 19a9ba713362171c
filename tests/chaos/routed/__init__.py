"""The services, connected to Postgres and NATS by wires that a test can hurt.

The supervisor starts these instead of the services (HEELER_SERVICES_PACKAGE). Each process asks the
switchboard for wires of its own, and is from there on the service itself.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

SWITCHBOARD = "HEELER_CHAOS_SWITCHBOARD"
CLOCKS = "HEELER_CHAOS_CLOCKS"
SERVERS = {"postgres": "HEELER_DATABASE_URL", "nats": "HEELER_NATS_URL"}
ASKED_SECONDS_MAX = 30.0


def run(service: str) -> None:
    """Be this service, behind wires, and by a clock of its own if the test wants that."""
    clocks = Path(os.environ[CLOCKS])
    if (clocks / "libfaketime").exists() and "LD_PRELOAD" not in os.environ:
        start_again_with_a_clock(service, clocks)
    for name, port in wires(service).items():
        os.environ[SERVERS[name]] = with_port(os.environ[SERVERS[name]], port)
    runpy.run_module(f"services.{service}", run_name="__main__", alter_sys=True)


def start_again_with_a_clock(service: str, clocks: Path) -> None:
    """The same process, with a clock that reads its deviation from a file. What measures spans
    of time goes on to run true, as it does when a machine's clock is set."""
    clock = clocks / f"{service}.{os.getpid()}"
    clock.write_text("+0\n")
    ours = {
        "LD_PRELOAD": (clocks / "libfaketime").read_text().strip(),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    module = f"tests.chaos.routed.{service}"
    os.execve(sys.executable, [sys.executable, "-m", module], os.environ | ours)


def wires(service: str) -> dict[str, int]:
    """The ports of this process's wires."""
    switchboard = ("127.0.0.1", int(os.environ[SWITCHBOARD]))
    with socket.create_connection(switchboard, ASKED_SECONDS_MAX) as connection:
        connection.sendall(f"{service} {os.getpid()}\n".encode())
        answer = connection.makefile().readline()
    return {name: int(port) for name, port in (pair.split("=") for pair in answer.split())}


def with_port(url: str, port: int) -> str:
    """The same url with another port."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}"))
