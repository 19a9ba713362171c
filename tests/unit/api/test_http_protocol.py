"""The HTTP server bounds what clients may cost, in bytes, connections and time."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from services.api.http import connection_limits, http_protocol
from services.api.http.callers import CALLER, THE_ONLY_CALLER
from services.api.http.connection_limits import ConnectionLimits, room_for_connections
from services.api.http.http_server import http_server
from services.api.settings import ApiSettings
from tests.waiting import wait_for

GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
Client = tuple[Reader, Writer]


class App:
    """Says how many bytes the body of a request has; or sends without end, or waits."""

    def __init__(self) -> None:
        self.asked = 0
        self.cut_off = 0
        self.sent_bytes = 0
        self.go_on = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.asked += 1
            await getattr(self, scope["path"].strip("/") or "size")(scope, receive, send)
            return
        while scope["type"] == "lifespan":
            asked = await receive()
            await send({"type": f"{asked['type']}.complete"})
            if asked["type"] == "lifespan.shutdown":
                return

    async def size(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.cut_off += 1
                return
            size, more = size + len(message["body"]), message["more_body"]
        await answer(send, str(size).encode())

    async def caller(self, scope: Any, receive: Any, send: Any) -> None:
        """Say who the request says that it is from; admit it as somebody."""
        known = str(scope["state"].get(CALLER)).encode()
        scope["state"][CALLER] = THE_ONLY_CALLER
        await answer(send, known)

    async def refuse(self, scope: Any, receive: Any, send: Any) -> None:
        await answer(send, b"without having read it")

    async def wait(self, scope: Any, receive: Any, send: Any) -> None:
        await self.go_on.wait()
        await answer(send, b"waited")

    async def stream(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await asyncio.wait_for(receive_or_none(receive), 5)) is None:
            await send({"type": "http.response.body", "body": b"x" * 10_000, "more_body": True})
            self.sent_bytes += 10_000
        self.cut_off += 1


async def receive_or_none(receive: Any) -> Any:
    """What came, if anything did."""
    try:
        async with asyncio.timeout(0.001):
            message = await receive()
    except TimeoutError:
        return None
    return message if message["type"] == "http.disconnect" else None


async def answer(send: Any, body: bytes) -> None:
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": body})


@dataclass(slots=True)
class Served:
    app: App
    limits: ConnectionLimits
    port: int

    async def connect(self, sent: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(sent)
        return reader, writer

    async def ask(self, sent: bytes) -> tuple[int, dict[str, str], bytes]:
        return await answered(await self.connect(sent))


async def answered(client: Client) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the next answer; status 0 if the connection ends instead."""
    reader, _ = client
    async with asyncio.timeout(20):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, {}, b""
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return int(first.split()[1]), headers, body


async def detail(asked: Awaitable[tuple[int, dict[str, str], bytes]]) -> tuple[int, str]:
    """Status and detail of a refusal, which is JSON and the last that a connection says."""
    status, headers, body = await asked
    assert (headers["content-type"], headers["connection"]) == ("application/json", "close")
    return status, json.loads(body)["detail"]


@asynccontextmanager
async def serving(connections_max: int = 100) -> AsyncIterator[Served]:
    app, limits = App(), ConnectionLimits(connections_max)
    server = http_server(app, ApiSettings("127.0.0.1", 0, None, 20), limits)

    async def sweep() -> None:
        while True:
            await limits.turn()

    tasks = [asyncio.create_task(server.serve()), asyncio.create_task(sweep())]
    try:
        await wait_for("the server listens", lambda: server.started)
        yield Served(app, limits, server.servers[0].sockets[0].getsockname()[1])
    finally:
        app.go_on.set()
        server.end()
        await tasks[0]
        tasks[1].cancel()
        assert not limits.open
        assert not limits.owing
        assert limits.upload_bytes == 0


@pytest.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(connection_limits, "SWEEP_SECONDS", 0.01)
    async with serving() as one:
        yield one


HEADERS = b"".join(b"x%d: y\r\n" % n for n in range(101))
TOO_MUCH = [
    (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 40_000, 431),
    (b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"a" * 40_000 + b"\r\n\r\n", 431),
    (b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x" * 40_000, 431),
    (b"GET / HTTP/1.1\r\nhost: a\r\n" + HEADERS + b"\r\n", 431),
    (b"GET / HTTP/1.1\r\nhost: a\r\n" + HEADERS * 900, 431),
    (b"\r\n" * 20_000, 431),
    (b"GET /" + b"a" * 17_000 + b" HTTP/1.1\r\nhost: a\r\n\r\n", 414),
    (b"GET /" + b"a" * 100_000, 414),
    (b"GET /?" + b"a" * 100_000 + b" HTTP/1.1\r\n", 414),
    (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: " + b"a" * 50_000, 431),
    (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + HEADERS, 431),
    (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1;" + b"a" * 50_000, 431),
]


@pytest.mark.parametrize(("sent", "status"), TOO_MUCH)
async def test_a_head_that_is_too_large_is_refused(
    served: Served, sent: bytes, status: int
) -> None:
    refused, why = await detail(served.ask(sent))
    assert refused == status
    assert "send less in the query" in why if status == 414 else "at most 100 headers" in why


CLAIMS = (
    b"caller: org-1",
    b"state: caller",
    b"state-caller: org-1",
    b"x-state: {}",
    b"scope: caller",
    b"forwarded: for=1.1.1.1",
    b"upgrade: h2c\r\nconnection: upgrade",
)


@pytest.mark.parametrize("claim", CLAIMS)
async def test_no_request_says_itself_who_its_caller_is(served: Served, claim: bytes) -> None:
    get = b"GET /caller?caller=org-1&state=caller HTTP/1.1\r\nhost: a\r\n" + claim + b"\r\n\r\n"
    body = b'{"caller": "org-1", "state": {"caller": "org-1"}}'
    head = b"POST /caller HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
    trailer = b"POST /caller HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    client = await served.connect()
    # One after the other on a connection: what an earlier one was admitted as is not said of it.
    for sent in (get, head + body, trailer + b"0\r\ncaller: org-1\r\n\r\n", get):
        client[1].write(sent)
        assert (await answered(client))[2] == b"None"
    client[1].close()


async def test_what_is_sent_after_a_refusal_is_dropped(served: Served) -> None:
    _, writer = client = await served.connect(b"GET / HTTP/1.1\r\nx: " + b"a" * 40_000)
    assert (await answered(client))[0] == 431
    sent = 0
    with suppress(ConnectionError):
        while True:
            writer.write(b"a" * 1_000_000)
            await writer.drain()
            sent += 1
    assert sent
    assert not served.app.asked


MALFORMED = [
    b"GARBAGE\r\n\r\n",
    b"get / HTTP/1.1\r\n\r\n",
    b"BREW / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET http:// HTTP/1.1\r\nhost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost : a\r\n\r\n",
    b"GET / HTTP/1.1\r\nx: a\x00\r\n\r\n",
    b"GET / HTTP/1.1\nhost: a\n\n",
    b"POST / HTTP/1.1\r\ncontent-length: abc\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
]


@pytest.mark.parametrize("sent", MALFORMED)
async def test_what_is_no_http_is_refused_in_json(served: Served, sent: bytes) -> None:
    status, why = await detail(served.ask(sent))
    assert status == 400
    assert why.startswith("This is not a request of HTTP/1.1: ")


async def test_another_protocol_is_not_spoken(served: Served) -> None:
    for wanted in (b"websocket", b"h2c"):
        upgrade = b"connection: upgrade\r\nupgrade: " + wanted + b"\r\n\r\n"
        status, _, body = await served.ask(b"GET / HTTP/1.1\r\nhost: a\r\n" + upgrade)
        assert (status, body) == (200, b"0")


# What the HTTP client of Java's library sends with each request, until it is spoken to in HTTP/2.
H2C = (
    b"connection: Upgrade, HTTP2-Settings\r\n"
    b"http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA\r\n"
    b"upgrade: h2c\r\n"
)


@pytest.mark.parametrize(
    ("framing", "body"),
    [
        (b"content-length: 6\r\n", b"abcdef"),
        (b"transfer-encoding: chunked\r\n", b"2\r\nab\r\n4\r\ncdef\r\n0\r\n\r\n"),
    ],
)
@pytest.mark.parametrize("bytes_at_once", [1, 1_000])
async def test_a_body_is_read_of_a_request_that_asks_for_another_protocol(
    served: Served, framing: bytes, body: bytes, bytes_at_once: int
) -> None:
    sent = b"POST / HTTP/1.1\r\nhost: a\r\n" + H2C + framing + b"\r\n" + body
    client = await served.connect()
    for request in (sent, sent, GET):
        for start in range(0, len(request), bytes_at_once):
            client[1].write(request[start : start + bytes_at_once])
            await client[1].drain()
    bodies = [(await answered(client))[2] for _ in range(3)]
    assert bodies == [b"6", b"6", b"0"]


async def test_limits_hold_for_requests_that_ask_for_another_protocol(served: Served) -> None:
    head = b"GET /wait HTTP/1.1\r\nhost: a\r\n" + H2C
    many = b"x: y\r\n" * http_protocol.HEADERS_MAX
    assert (await detail(served.ask(head + many + b"\r\n")))[0] == 431
    ahead = (head + b"\r\n") * (http_protocol.PIPELINED_MAX + 2)
    assert (await answered(await served.connect(ahead)))[0] == 0


async def test_a_body_is_asked_for_where_a_client_waits_for_that(served: Served) -> None:
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nexpect: 100-continue\r\n\r\n"
    client = await served.connect(head)
    assert (await answered(client))[0] == 100
    client[1].write(b"abc")
    assert (await answered(client))[2] == b"3"


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\nhost",
        b"GET",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf",
    ],
)
async def test_half_a_request_is_waited_for_only_so_long(
    served: Served, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS_MAX", 0.05)
    monkeypatch.setattr(http_protocol, "BODY_SECONDS_MAX", 0.05)
    status, why = await detail(served.ask(sent))
    assert status == 408
    assert "did not come whole in time" in why
    await wait_for("the application knows", lambda: served.app.cut_off == served.app.asked)


async def test_a_client_that_says_nothing_is_hung_up_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_SECONDS_MAX", 0.05)
    monkeypatch.setattr(http_protocol, "KEEP_ALIVE_SECONDS", 0.05)
    assert await served.ask(b"") == (0, {}, b"")
    client = await served.connect(GET)
    assert (await answered(client))[2] == b"0"
    assert (await answered(client))[0] == 0


async def test_a_body_that_nobody_wants_does_not_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "REST_SECONDS_MAX", 0.05)
    head = b"POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nx"
    client = await served.connect(head)
    assert (await answered(client))[2] == b"without having read it"
    status, _ = await detail(answered(client))
    assert status == 408


async def test_a_body_that_comes_after_its_answer_costs_no_connection(served: Served) -> None:
    client = await served.connect(b"POST /refuse HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n")
    assert (await answered(client))[2] == b"without having read it"
    client[1].write(b"abc" + GET)
    assert (await answered(client))[2] == b"0"


async def test_a_large_body_comes_whole(served: Served) -> None:
    for size in (1, 8_191, 8_192, 8_193, 3_000_000):
        head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % size
        assert (await served.ask(head + b"x" * size))[2] == str(size).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (size, b"y" * size) for size in (1, 9_000, 100_000))
    head = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    assert (await served.ask(head + chunks + b"0\r\n\r\n"))[2] == b"109001"


CHUNKED = b"POST %s HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("path", [b"/", b"/v1/agents/import", b"/refuse", b"/wait"])
async def test_a_body_in_tiny_chunks_is_refused(
    served: Served, path: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(App, "v1/agents/import", App.size, raising=False)
    parsed: list[int] = []
    on_body = http_protocol.LimitedHttp.on_body

    def counted(connection: http_protocol.LimitedHttp, body: bytes) -> None:
        parsed.append(len(body))
        on_body(connection, body)

    monkeypatch.setattr(http_protocol.LimitedHttp, "on_body", counted)
    client = await served.connect(CHUNKED % path)
    if path == b"/refuse":
        assert (await answered(client))[2] == b"without having read it"
    with suppress(ConnectionError):
        for _ in range(10):
            client[1].write(b"1\r\n \r\n" * 50_000)
            await client[1].drain()
    status, why = await detail(answered(client))
    assert (status, "at least 512 bytes" in why) == (400, True)
    assert len(parsed) == http_protocol.CHUNKS_COUNTED


async def test_tiny_chunks_are_refused_after_large_ones_and_in_many_requests(
    served: Served,
) -> None:
    tiny = b"1\r\n \r\n"
    large = b"%x\r\n%s\r\n" % (5_000_000, b"x" * 5_000_000)
    assert (await detail(served.ask(CHUNKED % b"/" + large + tiny * 5_000)))[0] == 400
    ahead = (CHUNKED % b"/wait" + tiny * 300 + b"0\r\n\r\n") * 10
    assert (await answered(await served.connect(ahead)))[0] == 0


async def test_a_body_may_come_in_many_chunks(served: Served) -> None:
    client = await served.connect()
    for chunk, count in ((1_024, 6_144), (60, 1_900), (60, 1_900)):
        body = b"%x\r\n%s\r\n" % (chunk, b"x" * chunk) * count
        client[1].write(CHUNKED % b"/" + body + b"0\r\n\r\n")
        assert (await answered(client))[2] == str(chunk * count).encode()


async def test_requests_that_come_together_are_answered_in_order(served: Served) -> None:
    client = await served.connect(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n" + GET * 10)
    await wait_for("the first is asked", lambda: served.app.asked)
    served.app.go_on.set()
    assert [(await answered(client))[2] for _ in range(11)] == [b"waited"] + [b"0"] * 10


async def test_requests_that_come_together_are_not_too_many(served: Served) -> None:
    client = await served.connect(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n" + GET * 10_000)
    assert (await answered(client))[0] == 0
    assert served.app.asked <= 1


async def test_who_owes_a_request_gives_way_to_who_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(connections_max=4) as served:
        waiting = [await served.connect(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n") for _ in range(3)]
        await wait_for("they are asked", lambda: served.app.asked == 3)
        idle = [await served.connect(b"GET / HTTP/1.1\r\nhos") for _ in range(50)]
        for n in range(20):
            status, _, body = await served.ask(GET)
            assert (status, body) == (200, b"0"), n
        assert len(served.limits.open) <= 5
        assert [(await answered(client))[0] for client in idle] == [0] * 50
        served.app.go_on.set()
        assert [(await answered(client))[2] for client in waiting] == [b"waited"] * 3


async def test_where_all_are_served_who_comes_is_refused() -> None:
    async with serving(connections_max=3) as served:
        waiting = [await served.connect(b"GET /wait HTTP/1.1\r\nhost: a\r\n\r\n") for _ in range(3)]
        await wait_for("they are asked", lambda: served.app.asked == 3)
        for _ in range(5):
            status, headers, body = await served.ask(GET)
            assert (status, headers["retry-after"]) == (503, "1")
            assert "as many connections as it can" in json.loads(body)["detail"]
        assert served.app.asked == 3
        served.app.go_on.set()
        assert [(await answered(client))[2] for client in waiting] == [b"waited"] * 3
        assert (await answered(await served.connect(GET)))[0] in (200, 503)


async def test_what_nobody_reads_is_not_produced_and_is_cut(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "UNREAD_SECONDS_MAX", 0.5)
    _, writer = await served.connect(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await wait_for("it is cut", lambda: served.app.cut_off)
    assert served.app.sent_bytes < 20_000_000
    await wait_for("the connection is gone", lambda: not served.limits.open)
    writer.close()


async def test_who_reads_least_goes_where_too_much_waits(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "UNREAD_BYTES_MAX", 50_000)
    _, writer = await served.connect(b"GET /stream HTTP/1.1\r\nhost: a\r\n\r\n")
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await wait_for("it is cut", lambda: served.app.cut_off)
    writer.close()


async def test_halves_of_bodies_are_not_too_much_together(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "UPLOAD_BYTES_MAX", 1_000_000)
    head = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 500000\r\n\r\n"
    halves = [await served.connect(head + b"x" * 400_000) for _ in range(6)]
    await wait_for("the oldest go", lambda: served.app.cut_off >= 4)
    assert served.limits.upload_bytes <= 1_000_000
    assert (await served.ask(head + b"x" * 500_000))[2] == b"500000"
    for _, writer in halves:
        writer.close()


async def test_nobody_is_late_where_the_server_stood_still() -> None:
    async with serving() as served:
        client = await served.connect(b"GET / HTTP/1.1\r\n")
        await wait_for("it is connected", lambda: served.limits.owing)
        now = asyncio.get_running_loop().time()
        served.limits.sweep(now)
        served.limits.sweep(now + 3_600)
        client[1].write(b"host: a\r\n\r\n")
        assert (await answered(client))[2] == b"0"


@pytest.mark.parametrize(
    ("soft", "hard", "room"),
    [(1_024, 20_000, 2_000), (1_024, 1_024, 768), (100, 100, 1), (-1, -1, 2_000)],
)
def test_connections_leave_descriptors_for_everything_else(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, room: int
) -> None:
    raised = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: raised.append(limits))
    assert room_for_connections(2_000) == room
    assert raised == ([(hard, hard)] if soft != hard else [])
