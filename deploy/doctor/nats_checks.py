"""NATS: reachable, with JetStream and the streams that the services need."""

from __future__ import annotations

import json
import socket
from typing import IO, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from deploy import container_health
from deploy.doctor.examined import BUS_VARIABLE, Examined
from deploy.doctor.findings import Finding, ok, problem, skip
from libs.contracts.stream_definitions import STREAM_NAMES, streams

PORT_DEFAULT = 4222
ANSWER_SECONDS_MAX = 3.0


class Refused(Exception):
    """The server's refusal."""


def check_nats(examined: Examined) -> Finding:
    """Whether it answers, lets us in, and has every stream."""
    url = examined.bus_url
    if url is None:
        return skip("no server runs in this home, and HEELER_NATS_URL names no other")
    named = bool(examined.environment.get(BUS_VARIABLE))
    try:
        address = urlsplit(url)
        where = f"NATS at {address.hostname}:{address.port or PORT_DEFAULT}"
    except ValueError:
        return problem(
            f"{BUS_VARIABLE} is no address (it is not shown, since it may hold a password)",
            f"export {BUS_VARIABLE}=<nats://user:password@host:port>",
        )
    restart = examined.restart
    try:
        greeting, found = _stream_names(url)
    except Refused as refused:
        fix = f"export {BUS_VARIABLE}=<nats://user:password@host:port>" if named else restart
        return problem(
            f"{where} refuses the user {address.username or 'without a name'}: {refused}", fix
        )
    except (OSError, ValueError, KeyError) as failed:
        fix = f"export {BUS_VARIABLE}=<address of a NATS that runs>" if named else restart
        return problem(f"{where} does not answer as NATS does ({_reason(failed)})", fix)
    if found is None:
        fix = "nats-server --config deploy/nats.conf" if named else restart
        return problem(f"{where} runs without JetStream, which keeps commands and events", fix)
    if missing := [spec.name for spec in streams() if spec.name not in found]:
        return problem(f"{where} lacks the streams {', '.join(missing)}", examined.migrate)
    if examined.bus_system_url and (ill := _problem_of(examined.bus_system_url)):
        return problem(f"{where} is not well: {ill}", restart)
    return ok(f"{where}, version {greeting.get('version')}, has {len(found)} streams")


def _reason(failed: Exception) -> str:
    if isinstance(failed, TimeoutError):
        return f"no answer within {ANSWER_SECONDS_MAX:g} s"
    return failed.strerror or str(failed) if isinstance(failed, OSError) else str(failed)


def _problem_of(url: str) -> str | None:
    try:
        return container_health.nats_problem(url)
    except (OSError, ValueError, KeyError) as failed:
        return _reason(failed)


def _stream_names(url: str) -> tuple[dict[str, Any], list[str] | None]:
    """The server's greeting, and its streams; None for them where it has no JetStream. Raises
    Refused, OSError, and ValueError or KeyError where that is no NATS."""
    address = urlsplit(url)
    user = unquote(address.username or "")
    login = {"user": user, "pass": unquote(address.password or "")} if user else {}
    hello = {**login, "verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    inbox = f"_INBOX.{user or 'doctor'}.{uuid4().hex}"
    where = (address.hostname or "127.0.0.1", address.port or PORT_DEFAULT)
    with (
        socket.create_connection(where, ANSWER_SECONDS_MAX) as connection,
        connection.makefile("rb") as stream,
    ):
        first = stream.readline()
        if not first.startswith(b"INFO "):
            raise ValueError("it does not greet")
        greeting = json.loads(first.removeprefix(b"INFO "))
        connection.sendall(
            f"CONNECT {json.dumps(hello)}\r\nSUB {inbox} 1\r\n"
            f"PUB {STREAM_NAMES} {inbox} 0\r\n\r\n".encode()
        )
        answer = _answer(stream)
    return greeting, None if answer is None else list(answer.get("streams") or [])


def _answer(stream: IO[bytes]) -> dict[str, Any] | None:
    """The answer of JetStream; None where nobody answers for this account. Raises Refused."""
    while line := stream.readline():
        _raise_refusal(line)
        if line.startswith(b"HMSG "):  # nobody listens there
            return None
        if line.startswith(b"MSG "):
            document: dict[str, Any] = json.loads(stream.read(int(line.split()[-1])))
            return None if "error" in document else document
    raise ConnectionError("it ended the connection")


def _raise_refusal(line: bytes) -> None:
    if line.startswith(b"-ERR"):
        raise Refused(line.decode(errors="replace").removeprefix("-ERR").strip(" '\r\n"))
