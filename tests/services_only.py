"""The supervisor with the services alone; Postgres and NATS run already, on the given ports."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace

from deploy.embedded import supervisor
from deploy.embedded.settings import DATABASE, Settings, read_settings
from deploy.embedded.supervised_process import Well
from libs.contracts.nats_permissions import WATCH


class ServicesOnly(supervisor.Supervisor):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        ports: dict[str, int] = json.loads(sys.argv[1])
        self._postgres = replace(self._postgres, port=ports["postgres"])
        self._nats = replace(self._nats, port=ports["nats"])
        self._state.ports |= ports
        self._state.urls |= {
            "nats": self._nats.url,
            "nats_watch": self._nats.url_of(WATCH),
            "database": self._postgres.url(DATABASE),
        }
        for name in ("postgres", "nats"):
            del self._state.parts[name]

    async def _start_servers(self) -> None:
        """They run already."""

    def _servers_well(self) -> list[Callable[[], Well | None]]:
        """Nobody looks at them here, so a silent service may be waiting for them."""
        return [lambda: None]


if __name__ == "__main__":
    sys.exit(supervisor.main(read_settings(), ServicesOnly))
