"""Whether the process in this container does its work: `python -m deploy.container_health [part]`.

The engine runs this every few seconds, so it imports nothing that takes long to load.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import sys
from collections.abc import Iterator
from typing import IO, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

ANSWER_SECONDS_MAX = 3.0
API_PORT_DEFAULT = "8283"
NATS_PORT_DEFAULT = 4222
SERVER_HEALTH = "$SYS.REQ.SERVER.PING.HEALTHZ"


def main(part: str) -> int:
    """0 when the part is well; else 1, with the reason on stderr."""
    try:
        reason = problem(part)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"{type(error).__name__}: {error}"
    if reason:
        print(f"{part} is not healthy: {reason}", file=sys.stderr)
    return 1 if reason else 0


def problem(part: str) -> str | None:
    """The problem of the part that runs here, or None."""
    match part:
        case "api":
            return http_problem(int(os.environ.get("HEELER_PORT", API_PORT_DEFAULT)), "/v1/health")
        case "nats":
            password = os.environ["HEELER_NATS_SYSTEM_PASSWORD"].strip('"')
            return nats_problem(f"nats://system:{password}@127.0.0.1:{NATS_PORT_DEFAULT}")
        case service:
            return bus_problem(os.environ["HEELER_NATS_URL"], service, socket.gethostname())


def http_problem(port: int, path: str) -> str | None:
    """Why a request got no 200; None if it did."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS_MAX)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode(errors="replace")
        return None if response.status == 200 else f"{response.status} {body}"
    finally:
        connection.close()


def nats_problem(url: str, name: str | None = None) -> str | None:
    """None when the server (of this name) answers and has JetStream and every stream in order: a
    stream that met a full disk takes nothing more until the server starts again. The url is that
    of the user of the system account."""
    answer = next(answers(url, SERVER_HEALTH), None)
    if answer is None:
        return "NATS ended the connection"
    if name and answer["server"]["name"] != name:
        return f"another server answers: {answer['server']['name']}"
    found = answer.get("data") or answer.get("error") or {}
    return None if found.get("status") == "ok" else str(found.get("error") or found)


def bus_problem(url: str, service: str, host: str) -> str | None:
    """None when the process of the service that runs on this host answers on the bus.

    Other replicas answer too, and their word says nothing of ours.
    """
    for answer in answers(url, f"$SRV.PING.{service}"):
        if answer.get("metadata", {}).get("process", "").rpartition(":")[0] == host:
            return None
    return f"NATS ended the connection before {service} on {host} answered"


def answers(url: str, subject: str, payload: str = "") -> Iterator[dict[str, Any]]:
    """Every answer to a request on NATS; raises TimeoutError after the last, and ConnectionError
    where the server refuses."""
    address = urlsplit(url)
    user = unquote(address.username or "")
    login = {"user": user, "pass": unquote(address.password or "")}
    greeting = {**login, "verbose": False, "pedantic": False, "headers": False, "name": "healthy"}
    where = (address.hostname or "127.0.0.1", address.port or NATS_PORT_DEFAULT)
    inbox = f"_INBOX.{user}.{uuid4().hex}"  # nobody else's: several may ask at once
    with socket.create_connection(where, ANSWER_SECONDS_MAX) as connection:
        connection.sendall(
            f"CONNECT {json.dumps(greeting)}\r\nSUB {inbox} 1\r\n"
            f"PUB {subject} {inbox} {len(payload)}\r\n{payload}\r\n".encode()
        )
        with connection.makefile("rb") as stream:
            yield from payloads(stream)


def payloads(stream: IO[bytes]) -> Iterator[dict[str, Any]]:
    """The messages in what a NATS server sends; raises ConnectionError for a refusal."""
    while line := stream.readline():
        if line.startswith(b"-ERR"):
            raise ConnectionError(line.decode(errors="replace").strip())
        if line.startswith(b"MSG "):
            size = int(line.split()[-1])
            yield json.loads(stream.read(size))
            stream.readline()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else os.environ["HEELER_SERVICE"]))
