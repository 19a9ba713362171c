"""Free ports for tests, none of them given twice: two servers that are being started at the same
moment, in one test or in two workers of pytest, never want the same one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

from deploy.embedded.state import PORT_RANGE, port_is_free

WORKERS_MAX = 8


def _ports_of_this_worker() -> Iterator[int]:
    """The part of the range that belongs to this worker, round and round from a random place."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS_MAX
    first, end = PORT_RANGE
    size = (end - first) // WORKERS_MAX
    offset = random.SystemRandom().randrange(size)
    while True:
        yield first + worker * size + offset
        offset = (offset + 1) % size


_ports = _ports_of_this_worker()


def free_port() -> int:
    """A port of loopback that nobody has, and that nobody here was given lately."""
    return next(port for port in _ports if port_is_free("127.0.0.1", port))
