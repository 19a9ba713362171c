"""The HTTP server of a process of the api."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, cast

import uvicorn
from litestar.types import ASGIApp

from services.api.http.connection_limits import ConnectionLimits
from services.api.http.http_protocol import KEEP_ALIVE_SECONDS, LimitedHttp
from services.api.settings import ApiSettings

GRACEFUL_SECONDS_MAX = 5
TICK_SECONDS = 1.0


class Server(uvicorn.Server):
    """Leaves the signals to the process, which may have more to do than serve HTTP, and wakes once
    a second, where uvicorn looks ten times whether it is to end."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    def end(self) -> None:
        """Take no more connections, and end when those that there are have been served."""
        self.ending.set()

    async def main_loop(self) -> None:
        """Serve until the end, with the date in the answers as it is."""
        while not (self.ending.is_set() or await self.on_tick(0)):
            with suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self.ending.wait()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave all signals to the process."""
        yield


def http_server(app: ASGIApp, settings: ApiSettings, limits: ConnectionLimits) -> Server:
    """The HTTP server of the application, with limits on clients."""
    config = uvicorn.Config(
        cast(Any, app),
        host=settings.host,
        port=settings.port,
        http=cast(type[asyncio.Protocol], partial(LimitedHttp, limits=limits)),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SECONDS_MAX,
    )
    return Server(config)
