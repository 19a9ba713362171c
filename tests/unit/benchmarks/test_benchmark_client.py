"""The benchmark client reads every shape of answer, however the bytes arrive."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

from benchmarks.client import Connection, Origin

ANSWERS = {
    "a length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    "chunks": (
        b"HTTP/1.1 201 C\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        201,
        b"hello",
    ),
    "nothing": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "an empty body": (b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", 500, b""),
    "an interim answer": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        200,
        b"ok",
    ),
}


@asynccontextmanager
async def server_of(*parts, then_close=False):
    """Answers every request with these bytes, piece by piece; yields its origin and requests."""
    requests = []

    async def serve(reader, writer):
        try:
            while True:
                requests.append(await reader.readuntil(b"\r\n\r\n"))
                for part in parts:
                    writer.write(part)
                    await asyncio.sleep(0)
                if then_close:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield Origin.of(f"http://127.0.0.1:{port}/base/"), requests


@asynccontextmanager
async def connection_to(origin):
    connection = Connection(origin)
    yield connection
    connection.close()


@pytest.mark.parametrize("shape", ANSWERS)
@pytest.mark.parametrize("piece", [1, 7, 1000])
async def test_an_answer_is_read_whole_and_the_next_on_the_same_connection(shape, piece):
    answer, status, body = ANSWERS[shape]
    parts = [answer[start : start + piece] for start in range(0, len(answer), piece)]
    async with server_of(*parts) as (origin, _), connection_to(origin) as connection:
        for _ in range(2):
            response = await connection.request(origin.request("GET", "/"))
            assert (response.status, response.body) == (status, body)
            assert response.seconds > 0
        assert connection.transport is not None


async def test_a_body_without_a_length_ends_with_the_connection():
    answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello"
    server = server_of(answer, then_close=True)
    async with server as (origin, requests), connection_to(origin) as connection:
        for _ in range(2):
            response = await connection.request(origin.request("GET", "/"))
            assert response.body == b"hello"
    assert len(requests) == 2


async def test_an_answer_that_breaks_off_is_an_error_and_the_next_request_connects_again():
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhello"
    server = server_of(answer, then_close=True)
    async with server as (origin, requests), connection_to(origin) as connection:
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                await connection.request(origin.request("GET", "/"))
    assert len(requests) == 2


async def test_what_is_not_http_is_an_error():
    async with server_of(b"HELO\r\n\r\n") as (origin, _), connection_to(origin) as connection:
        with pytest.raises(OSError, match="not HTTP"):
            await connection.request(origin.request("GET", "/"))


async def test_what_is_noticed_in_a_body_is_timed_apart():
    parts = [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", b"one ", b"two", b" 3"]
    async with server_of(*parts) as (origin, _), connection_to(origin) as connection:
        noticed = await connection.request(origin.request("GET", "/"), notice=re.compile(b"two"))
        assert noticed.noticed_seconds is not None
        assert 0 < noticed.noticed_seconds <= noticed.seconds
        missed = await connection.request(origin.request("GET", "/"), notice=re.compile(b"four"))
        assert missed.noticed_seconds is None


async def test_a_request_looks_like_one_of_the_official_sdk():
    origin = Origin.of("https://example.com/base/", api_key="sk-1")
    head, _, body = origin.request("POST", "/v1/agents/", {"a": "é"}).partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        "POST /base/v1/agents/ HTTP/1.1",
        "Host: example.com:443",
        "Accept: */*",
        "User-Agent: Letta/Python 1.12.1",
        "X-Stainless-Package-Version: 1.12.1",
        "Authorization: Bearer sk-1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    assert "sk-1" not in repr(origin)


@pytest.mark.parametrize("url", ["127.0.0.1:8283", "ftp://example.com", "http://"])
def test_what_is_not_a_base_url_is_refused(url):
    with pytest.raises(ValueError, match="is not a base URL"):
        Origin.of(url)
