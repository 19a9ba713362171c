"""S09, S10: no address that only this machine or its network reaches is asked, however it is
written, unless its host is named."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from libs.egress import checked_addresses
from libs.egress.address_guard import MCP_HOSTS, AddressGuard
from libs.egress.failures import (
    AnswerTooLarge,
    EgressFailed,
    Forbidden,
    TooLate,
    Unreachable,
)
from libs.egress.guarded_http_client import GuardedHttp, KeptHttp
from libs.egress.guarded_httpx_transport import GuardedTransport
from libs.egress.outgoing_requests import REDIRECTS_MAX, Answer, Bounds, OutgoingRequest
from services.agent.adapters.callback_poster import CallbackPoster
from services.agent.domain.conversations.callback_attempts import CallbackOutcome

# Each leads to this machine, its network or its cloud, or is no address; PORT is a listener's.
HOSTILE = [
    "http://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://127.255.255.254:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://017700000001:PORT/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://[::1]:PORT/",
    "http://[::]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:7f00:0001]:PORT/",
    "http://[::7f00:1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://[64:ff9b::10.0.0.1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fe80::1%25lo]:PORT/",
    "http://[fc00::1]:PORT/",
    "http://[fd00:ec2::254]/",
    "http://[fec0::1]/",
    "http://[ff02::1]:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://169.254.169.254/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xa9fea9fe/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://10.0.0.1/",
    "http://10.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.0.1/",
    "http://192.168.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://192.0.2.1/",
    "http://user:password@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT@example.com/",
    "http://example.com\\@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http://127.0.0.1%2f@example.com/",
    "https://127.0.0.1:PORT/",
    "ftp://127.0.0.1:PORT/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:PORT/",
    "unix:///tmp/socket",
    "//127.0.0.1/",
    "127.0.0.1:PORT",
    "http:///",
    "http://:PORT/",
    "http://127.0.0.1:99999/",
    "http://[::1",
    "javascript:alert(1)",
    "http://①②⑦.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
]


@dataclass
class Listener:
    """Counts who connects, and answers each with the same status."""

    port: int = 0
    status: str = "200 OK"
    headers: str = ""
    body: bytes = b""
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        self.bodies.append(await reader.readexactly(length))
        size = f"content-length: {len(self.body)}"
        writer.write(f"HTTP/1.1 {self.status}\r\n{size}\r\n{self.headers}\r\n".encode())
        writer.write(self.body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    one = Listener()
    server = await asyncio.start_server(one.answer, None, 0, family=socket.AF_INET)
    async with server:
        one.port = server.sockets[0].getsockname()[1]
        yield one


async def posted(url: str, *allowed: str) -> CallbackOutcome:
    return await CallbackPoster(AddressGuard(frozenset(allowed))).post(url, b"{}")


BOUNDS = Bounds()


async def fetched(url: str, *allowed: str, bounds: Bounds = BOUNDS, **fields: Any) -> Answer:
    http = GuardedHttp(AddressGuard(frozenset(allowed), MCP_HOSTS), bounds)
    return await http.send(OutgoingRequest(fields.pop("method", "GET"), url, **fields))


async def test_no_hostile_address_is_asked(listener: Listener) -> None:
    assert len(HOSTILE) >= 60
    for url in HOSTILE:
        outcome = await posted(url.replace("PORT", str(listener.port)))
        assert outcome.status is None, url
        assert outcome.error, url
        with pytest.raises(EgressFailed):
            await fetched(url.replace("PORT", str(listener.port)))
    assert listener.connections == 0


@pytest.mark.parametrize("url", HOSTILE)
def test_what_its_text_tells_is_refused_at_once(url: str) -> None:
    assert AddressGuard().refusal(url.replace("PORT", "9000"))


def test_public_addresses_pass() -> None:
    for url in (
        "https://example.com/hook?a=1",
        "http://93.184.216.34:8080/",
        "http://134744072/",
        "http://[2606::1]/",
        "http://localhost.example.com/",
        "http://127.example.com/",
    ):
        assert AddressGuard().refusal(url) is None, url


async def test_a_host_that_is_named_is_asked_at_its_port_alone(listener: Listener) -> None:
    """S10: the host that is listed works, its neighbours do not."""
    here = f"http://127.0.0.1:{listener.port}/hook"
    assert (await posted(here, "127.0.0.1")).status == 200
    assert (await posted(here, f"127.0.0.1:{listener.port}")).status == 200
    assert (await posted(here, "127.0.0.1:1")).error
    assert (await posted(here, "localhost")).error
    assert (await posted(here.replace("127.0.0.1", "127.0.0.2"), "127.0.0.1")).error
    assert listener.bodies == [b"{}", b"{}"]


async def test_a_redirect_is_checked_as_an_address_is(listener: Listener) -> None:
    listener.status = "307 Temporary Redirect"
    listener.headers = f"location: http://127.0.0.1:{listener.port}/inside\r\n"
    outcome = await posted(f"http://localhost:{listener.port}/", "localhost")
    assert outcome.forbidden
    assert "private network" in str(outcome.error)
    assert listener.connections == 1, "the one that was named, and not where it leads"


async def test_redirects_are_bounded_and_those_to_another_request_are_not_followed(
    listener: Listener,
) -> None:
    here = f"http://localhost:{listener.port}/"
    listener.headers = f"location: {here}\r\n"
    listener.status = "308 Permanent Redirect"
    outcome = await posted(here, "localhost")
    assert "redirects" in str(outcome.error)
    assert listener.connections == REDIRECTS_MAX + 1
    listener.status = "302 Found"
    assert (await posted(here, "localhost")).status == 302
    assert listener.connections == REDIRECTS_MAX + 2


@pytest.mark.parametrize("resolved", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["::1"]])
async def test_a_name_that_means_this_network_is_not_asked(
    listener: Listener, monkeypatch: pytest.MonkeyPatch, resolved: list[str]
) -> None:
    monkeypatch.setattr(checked_addresses, "look_up", lambda host, port: resolved)
    outcome = await posted(f"http://rebind.example:{listener.port}/")
    assert outcome.forbidden
    assert listener.connections == 0


async def test_the_connection_goes_to_what_was_checked(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means something else a moment later: it is looked up once."""
    asked: list[str] = []

    def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr(checked_addresses, "look_up", look_up)
    assert (await posted(f"http://hook.lan:{listener.port}/", "hook.lan")).status == 200
    assert asked == ["hook.lan"]


async def test_nobody_there_is_no_exception() -> None:
    outcome = await posted("http://localhost:1/", "localhost")
    assert outcome.error
    assert outcome.passing


async def test_the_answer_comes_whole(listener: Listener) -> None:
    listener.body, listener.headers = b"Hello", "X-Kind: greeting\r\n"
    answer = await fetched(
        f"http://localhost:{listener.port}/a", "localhost", headers={"x-key": "k"}, body=b"asked"
    )
    assert (answer.status, answer.body, answer.headers["x-kind"]) == (200, b"Hello", "greeting")
    assert listener.bodies == [b"asked"]
    assert b"x-key: k" in listener.heads[0].lower()


async def test_an_answer_of_more_bytes_than_are_read_is_refused(listener: Listener) -> None:
    listener.body = b"x" * 1_000_000
    url = f"http://localhost:{listener.port}/"
    with pytest.raises(AnswerTooLarge):
        await fetched(url, "localhost", bounds=Bounds(answer_bytes=999_999))
    assert len((await fetched(url, "localhost", bounds=Bounds(answer_bytes=10**6))).body) == 10**6


@pytest.mark.parametrize("bounds", [Bounds(seconds=0.2), Bounds(silence_seconds=0.2)])
async def test_who_says_nothing_is_waited_for_as_long_as_is_allowed(bounds: Bounds) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(TooLate):
            await fetched(f"http://127.0.0.1:{port}/", "127.0.0.1", bounds=bounds)


async def test_what_goes_wrong_where_the_answer_is_read_stays_as_it_is(listener: Listener) -> None:
    http = GuardedHttp(AddressGuard(frozenset({"localhost"})))
    with pytest.raises(TimeoutError, match="mine"):
        async with http.open(OutgoingRequest("GET", f"http://localhost:{listener.port}/")):
            raise TimeoutError("mine")


async def test_a_question_follows_a_redirect_and_tells_another_host_no_secret(
    listener: Listener,
) -> None:
    target = Listener(body=b"there")
    server = await asyncio.start_server(target.answer, "127.0.0.1", 0)
    async with server:
        target.port = server.sockets[0].getsockname()[1]
        listener.status = "302 Found"
        listener.headers = f"location: http://127.0.0.1:{target.port}/there\r\n"
        answer = await fetched(
            f"http://localhost:{listener.port}/",
            *("localhost", "127.0.0.1"),
            headers={"Authorization": "Bearer secret", "X-Key": "secret", "Accept": "text/html"},
        )
    assert (answer.body, answer.url) == (b"there", f"http://127.0.0.1:{target.port}/there")
    assert b"secret" in listener.heads[0]
    assert b"secret" not in target.heads[0]
    assert b"text/html" in target.heads[0]


async def test_a_connection_is_kept_and_another_made_where_the_server_has_ended_it() -> None:
    answered: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Three requests of a connection get an answer, the fourth its end."""
        for number in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
            answered.append(number)
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        http = KeptHttp(AddressGuard(frozenset({"localhost"})))
        request = OutgoingRequest("POST", f"http://localhost:{server.sockets[0].getsockname()[1]}/")
        bodies = [(await http.send(request)).body for _ in range(7)]
        await http.aclose()
    assert bodies == [b"hi"] * 7
    assert answered == [0, 1, 2, 0, 1, 2, 0]


async def test_a_connection_that_is_kept_is_made_to_no_hostile_address(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    http = KeptHttp(AddressGuard())
    for url in HOSTILE:
        with pytest.raises(EgressFailed):
            await http.send(OutgoingRequest("POST", url.replace("PORT", str(listener.port))))
    monkeypatch.setattr(checked_addresses, "look_up", lambda host, port: ["10.0.0.1"])
    with pytest.raises(Forbidden):
        await http.send(OutgoingRequest("POST", f"http://rebind.example:{listener.port}/"))
    await http.aclose()
    assert listener.connections == 0


async def test_the_refusal_names_the_setting_of_its_purpose() -> None:
    with pytest.raises(Forbidden, match="HEELER_MCP_HOSTS"):
        await fetched("http://10.0.0.1/")


async def test_a_name_that_nobody_has_is_said_so() -> None:
    with pytest.raises(Unreachable, match=r"nobody\.invalid has no address"):
        await fetched("http://nobody.invalid/")


async def test_no_hostile_address_is_asked_by_an_httpx2_client(listener: Listener) -> None:
    """S09: what the MCP SDK asks by, over the same 60 addresses."""
    for url in HOSTILE:
        with pytest.raises((EgressFailed, httpx2.HTTPError, httpx2.InvalidURL)):
            await asked(url.replace("PORT", str(listener.port)))
    assert listener.connections == 0


async def asked(url: str, *allowed: str) -> httpx2.Response:
    guard = AddressGuard(frozenset(allowed), MCP_HOSTS)
    async with httpx2.AsyncClient(
        transport=GuardedTransport(guard, answer_bytes_max=1_000), trust_env=False
    ) as client:
        return await client.get(url)


async def test_an_httpx2_client_connects_to_what_was_checked(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S10: also where a name means something else a moment later."""
    looked_up: list[str] = []

    def look_up(host: str, port: int) -> list[str]:
        looked_up.append(host)
        return ["127.0.0.1"]

    monkeypatch.setattr(checked_addresses, "look_up", look_up)
    listener.body = b"here"
    url = f"http://tools.lan:{listener.port}/"
    assert (await asked(url, "tools.lan")).content == b"here"
    assert b"host: tools.lan" in listener.heads[0].lower()
    with pytest.raises(Forbidden, match="HEELER_MCP_HOSTS"):
        await asked(url.replace("tools", "other"), "tools.lan")
    assert (looked_up, listener.connections) == (["tools.lan", "other.lan"], 1)


async def test_an_httpx2_client_reads_no_more_than_the_bound(listener: Listener) -> None:
    listener.body = b"x" * 1_001
    with pytest.raises(httpx2.StreamError, match="more than 1000 bytes"):
        await asked(f"http://localhost:{listener.port}/", "localhost")
    listener.body, listener.headers = b"x", "content-encoding: gzip\r\n"
    with pytest.raises(httpx2.StreamError, match="compressed"):
        await asked(f"http://localhost:{listener.port}/", "localhost")


async def test_names_that_are_looked_up_for_long_hold_up_nothing_else(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither what else is done in threads, nor another name."""
    over = threading.Event()
    truly = checked_addresses.look_up

    def look_up(host: str, port: int) -> list[str]:
        if host.startswith("slow"):
            over.wait(10)
            raise OSError("nobody has it")
        return truly(host, port)

    monkeypatch.setattr(checked_addresses, "look_up", look_up)
    slow = [asyncio.create_task(fetched(f"http://slow{n}.invalid/")) for n in range(100)]
    try:
        async with asyncio.timeout(5):
            await asyncio.to_thread(lambda: None)
            here = f"http://localhost:{listener.port}/"
            assert (await fetched(here, "localhost")).status == 200
    finally:
        over.set()
        found = await asyncio.gather(*slow, return_exceptions=True)
    assert {type(error) for error in found} == {Unreachable}
