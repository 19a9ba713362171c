"""One more process of the api, beside those of the running server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import psutil

from tests.e2e.asking import SECONDS_MAX
from tests.ports import free_port
from tests.servers import HeelerInstance, wait_until


@contextmanager
def one_more_api(heeler: HeelerInstance, **settings: str) -> Iterator[tuple[str, psutil.Process]]:
    """The address and the process of an api with settings of its own."""
    port = free_port()
    process = heeler.spawn_service("api", {"HEELER_PORT": str(port), **settings})
    url = f"http://127.0.0.1:{port}"

    def well() -> bool:
        try:
            return httpx.get(f"{url}/v1/health").status_code == 200
        except httpx.TransportError:
            return False

    wait_until("one more api", well, SECONDS_MAX)
    yield url, psutil.Process(process.pid)
    process.terminate()
    process.wait(20)
