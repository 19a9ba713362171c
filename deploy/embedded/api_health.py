"""Ask the API how it and all behind it are."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field

PROBE_SECONDS_MAX = 2.0
LAUNCH_PROBE_SECONDS_MAX = 10.0  # of one who waits for a server that may be slow


@dataclass(frozen=True)
class Health:
    """The state of each part by `/v1/health`; empty when nothing answered in that form."""

    server: str = ""
    parts: dict[str, str] = field(default_factory=dict)
    code: int = 0
    dead_letters: int = 0  # messages that were given up

    @property
    def all_ok(self) -> bool:
        return self.code == 200 and bool(self.parts) and not self.failing

    @property
    def failing(self) -> list[str]:
        return [name for name, value in self.parts.items() if value != "ok"]


def read_health(host: str, port: int, seconds_max: float = PROBE_SECONDS_MAX) -> Health:
    connection = http.client.HTTPConnection(host, port, timeout=seconds_max)
    try:
        connection.request("GET", "/v1/health")
        response = connection.getresponse()
        document = json.loads(response.read())
        services = document.get("services") or {}
        parts = {"api": document["status"]}
        parts |= {name: document[name] for name in ("postgres", "nats") if name in document}
        parts |= {str(name): str(value) for name, value in services.items()}
        given_up = int(document.get("dead_letters") or 0)
        return Health(str(document.get("server", "")), parts, response.status, given_up)
    except (OSError, ValueError, KeyError, AttributeError, http.client.HTTPException):
        return Health()
    finally:
        connection.close()
