"""The switchboard knows whose connection a server means."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import Mock

import pytest

from tests.chaos.switchboard import Plugged, Switchboard
from tests.chaos.wire import Connection, Wire

PORT = 40_000


@pytest.mark.parametrize(("server", "pid"), [("nats", 1), ("postgres", 2)])
def test_one_port_number_at_two_servers_is_two_processes(server: str, pid: int) -> None:
    """Linux gives a port to connections of two clients at once where they go to two servers."""
    switchboard = Switchboard(lambda _: 0, random.Random(1))
    switchboard.plugged = [
        Plugged("memory", 1, "nats", wire_seen_at(PORT)),
        Plugged("agent", 2, "postgres", wire_seen_at(PORT)),
    ]

    assert switchboard.pids_by_port(server) == {PORT: pid}


def wire_seen_at(port: int) -> Wire:
    """A wire with one connection, which its server sees at this port."""
    wire = Wire(lambda: 0)
    end: Any = Mock(get_extra_info=Mock(return_value=("127.0.0.1", port)))
    wire.connections = {Connection(wire, (end, end), (end, end))}
    return wire
