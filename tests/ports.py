"""Free ports for tests, none of them given again until all others were: two servers that are being
started at the same moment, in one test or in two workers of pytest, do not want the same one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import cache
from itertools import cycle, islice

from deploy.embedded.state import PORT_RANGE, port_is_free

WORKERS_MAX = 8
PORTS_OF_A_WORKER = (PORT_RANGE[1] - PORT_RANGE[0]) // WORKERS_MAX


@cache
def _ports_of_this_worker() -> Iterator[int]:
    """The part of the range that belongs to this worker, round and round from a random place."""
    worker = int(os.environ.get("TEST_WORKER", "0")) % WORKERS_MAX
    first = PORT_RANGE[0] + worker * PORTS_OF_A_WORKER
    ports = range(first, first + PORTS_OF_A_WORKER)
    begin = random.SystemRandom().randrange(PORTS_OF_A_WORKER)
    return cycle([*ports[begin:], *ports[:begin]])


def free_port() -> int:
    """A port of loopback that nobody has. AssertionError when this worker has none left."""
    for port in islice(_ports_of_this_worker(), PORTS_OF_A_WORKER):
        if port_is_free("127.0.0.1", port):
            return port
    raise AssertionError(f"none of {PORTS_OF_A_WORKER} ports is free")
