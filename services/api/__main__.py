"""Start the api."""

from __future__ import annotations

import socket
import sys

import uvicorn

from libs.bus.logs import configure_logs
from libs.bus.settings import ServiceSettings
from services.api.app import application
from services.api.settings import ApiSettings, UnsafeSettings

GRACEFUL_SECONDS_MAX = 5


class Server(uvicorn.Server):
    """Tells open streams to end when the process is asked to stop: uvicorn waits for them."""

    def handle_exit(self, sig: int, frame: object) -> None:
        """A signal to stop."""
        self.config.app.state.stopping.set()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)  # type: ignore[arg-type]


def main() -> None:
    """Serve until SIGTERM or SIGINT."""
    services = ServiceSettings.from_environment()
    configure_logs("api", services.log_level)
    try:
        settings = ApiSettings.from_environment()
    except UnsafeSettings as unsafe:
        sys.exit(str(unsafe))
    config = uvicorn.Config(
        application(settings, services),
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACEFUL_SECONDS_MAX,
    )
    shared = settings.listen_descriptor
    Server(config).run(None if shared is None else [socket.socket(fileno=shared)])


if __name__ == "__main__":
    main()
