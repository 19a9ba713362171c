"""Start the api."""

from __future__ import annotations

import contextlib
import sys

import uvloop

from libs.bus.logs import configure_logs
from libs.bus.runtime import signalled
from libs.bus.settings import ServiceSettings
from services.api.app import serve
from services.api.settings import ApiSettings, UnsafeSettings


async def run(settings: ApiSettings, services: ServiceSettings) -> None:
    """Serve until the process is asked to stop."""
    await serve(settings, services, signalled())


def main() -> None:
    """The whole life of the api's process."""
    services = ServiceSettings.from_environment()
    configure_logs("api", services.log_level)
    try:
        settings = ApiSettings.from_environment()
    except UnsafeSettings as unsafe:
        sys.exit(str(unsafe))
    with contextlib.suppress(KeyboardInterrupt):
        uvloop.run(run(settings, services))


if __name__ == "__main__":
    main()
