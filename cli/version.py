"""`heeler version`."""

from __future__ import annotations

import json
from typing import Any

from cli.commands import Commands
from cli.output import show
from libs.contracts.version import HEELER_VERSION

app = Commands()

ANSWER_SECONDS_MAX = 2.0
HEALTH_BYTES_MAX = 1 << 20


@app.command()
def version() -> None:
    """Show the version of this command, and of the server that it would ask, if one answers."""
    url, health = _server()
    shown = {
        "version": HEELER_VERSION,
        "server": health.get("server"),
        "letta": health.get("version"),
        "url": url if health else None,
    }
    show(shown, {"heeler": "version", "server": "server", "as Letta": "letta", "at": "url"})


def _server() -> tuple[str, dict[str, Any]]:
    """Where the server is, and its health; empty where none answers."""
    from http.client import HTTPException
    from urllib.request import ProxyHandler, build_opener

    from cli.proxies import is_of_this_machine
    from cli.server import address

    url = address().url.rstrip("/")
    if not url.startswith(("http://", "https://")):
        return url, {}
    opener = build_opener(*([ProxyHandler({})] if is_of_this_machine(url) else []))
    try:
        with opener.open(f"{url}/v1/health", timeout=ANSWER_SECONDS_MAX) as answer:
            health = json.loads(answer.read(HEALTH_BYTES_MAX))
    except (OSError, ValueError, RecursionError, HTTPException):
        return url, {}
    return url, health if isinstance(health, dict) else {}
