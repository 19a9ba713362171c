"""What travels to and from a provider, and when it is asked again."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import BasicAuth

from services.agent.adapters.models import transport
from services.agent.adapters.models.aiohttp_transport import proxy_for
from services.agent.adapters.models.http_provider import pause_before_another_try
from services.agent.adapters.models.openai_provider import OpenAIProvider
from services.agent.adapters.models.ports import OddAnswer
from services.agent.adapters.models.provider_error_words import model_failure
from services.agent.adapters.models.transport import EventReader, Lost, Refused, TooLong


def data_of(*chunks: bytes) -> list[bytes]:
    reader = EventReader()
    return [data for chunk in chunks for data in reader.read(chunk)]


class TestEvents:
    def test_they_may_come_in_any_chunks(self) -> None:
        stream = (
            b'event: piece\ndata: {"a": 1}\n\ndata:{"b": 2}\r\n\r\n: nothing\n\ndata: [DONE]\n\n'
        )
        whole = [b'{"a": 1}', b'{"b": 2}', b"[DONE]"]
        assert data_of(stream) == whole
        assert data_of(*(stream[i : i + 1] for i in range(len(stream)))) == whole

    def test_what_unicode_calls_the_end_of_a_line_does_not_end_one(self) -> None:
        data = '{"text": "one\u2028two\x85three\x0b"}'.encode()
        assert data_of(b"data: " + data + b"\n\n") == [data]

    def test_the_last_line_may_have_no_end(self) -> None:
        reader = EventReader()
        assert list(reader.read(b'data: {"a": 1}')) == []
        assert list(reader.end()) == [b'{"a": 1}']
        assert list(reader.end()) == []

    def test_an_object_may_have_several_lines_and_no_empty_line_behind_it(self) -> None:
        lines = [
            b'{"a": {"b": 1}',
            b"",
            b', "c": [{}',
            b"]",
            b"}",
            b'{"d": 2}',
            b"[DONE]",
            b"[DONE]",
        ]
        found = data_of(b"".join(b"data: %s\n" % line for line in lines) + b"\n")
        assert found[0] == b'{"a": {"b": 1}\n, "c": [{}\n]\n}'
        assert found[1:] == [b'{"d": 2}', b"[DONE]", b"[DONE]"]

    def test_one_that_never_ends_is_given_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(transport, "LINE_BYTES_MAX", 100)
        assert data_of(b"data: {\n", *[b"data: ,{}\n"] * 24) == []
        with pytest.raises(TooLong, match="an event of more than 100 bytes"):
            data_of(b"data: {\n", *[b"data: ,{}\n"] * 25)
        assert len(data_of(*[b'data: {"a": 1}\n\n'] * 50)) == 50


def pause(problem: BaseException, number: int = 1, error_type: str = "llm_error") -> float | None:
    failure = model_failure(error_type, "No")
    failure.__cause__ = problem
    return pause_before_another_try(failure, number)


def refused(status: int, text: str = "", **headers: str) -> Refused:
    return Refused(status, {name.replace("_", "-"): word for name, word in headers.items()}, text)


class TestAnotherTry:
    @pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
    def test_what_passes_is_worth_it_a_little_later_each_time(self, status: int) -> None:
        first, second = pause(refused(status)), pause(refused(status), number=2)
        assert first is not None
        assert second is not None
        assert 0.375 <= first <= 0.625 < 0.75 <= second <= 1.25

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
    def test_what_stays_is_not(self, status: int) -> None:
        assert pause(refused(status)) is None

    def test_the_provider_knows_best(self) -> None:
        assert pause(refused(500, x_should_retry="false")) is None
        assert pause(refused(400, x_should_retry="true")) is not None

    def test_it_says_when(self) -> None:
        assert pause(refused(429, retry_after="7")) == 7.0
        assert pause(refused(429, retry_after_ms="250", retry_after="7")) == 0.25
        soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
        assert 25 < (pause(refused(503, retry_after=soon)) or 0) <= 30
        past = format_datetime(datetime.now(UTC) - timedelta(seconds=30), usegmt=True)
        assert pause(refused(503, retry_after=past)) == 0.0
        nowhere = soon.replace("GMT", "-0000")
        assert 25 < (pause(refused(503, retry_after=nowhere)) or 0) <= 30
        for odd in (
            "tomorrow",
            "Sun, 99 Nov 2026 25:61:61 GMT",
            "Sun, 1 Jan 2026 00:00:00 +999999",
        ):
            assert 0 < (pause(refused(503, retry_after=odd)) or 0) < 1

    def test_too_late_is_never(self) -> None:
        assert pause(refused(429, retry_after="3600")) is None

    def test_a_lost_connection_and_a_silence_pass(self) -> None:
        assert pause(Lost(ConnectionResetError())) is not None
        assert pause(Lost(TimeoutError(), late=True)) is not None

    def test_an_answer_that_is_none_stays_and_so_does_one_that_is_too_long(self) -> None:
        assert pause(OddAnswer("it is empty")) is None
        assert pause(refused(500), 1, "context_window_exceeded") is None


def test_the_proxy_is_the_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "no_proxy", "all_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,.local")
    assert proxy_for("https://api.openai.com/v1") == {"proxy": "http://proxy:3128"}
    for address in ("http://api.openai.com/v1", "https://127.0.0.1:8000/v1", "https://a.local/v1"):
        assert proxy_for(address) == {}
    monkeypatch.setenv("HTTPS_PROXY", "me:secret@proxy:3128")
    options = proxy_for("https://api.openai.com/v1")
    assert options == {"proxy": "http://proxy:3128", "proxy_auth": BasicAuth("me", "secret")}


async def test_a_proxy_is_not_told_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@127.0.0.1:{port}")
    monkeypatch.setenv("NO_PROXY", "")
    provider = OpenAIProvider("sk-key", "https://models.example/v1")
    async with server:
        with pytest.raises(Lost) as lost:
            await provider.wire.post("/chat/completions", b"{}")
    await provider.close()
    [asked] = heard
    assert asked.startswith(b"CONNECT models.example:443")
    assert b"sk-key" not in asked
    assert b64encode(b"me:secret") in asked
    assert "secret" not in str(lost.value)


def test_an_error_may_be_no_json() -> None:
    assert refused(502, "<html>").body is None
    assert refused(400, '{"error": {}}').body == {"error": {}}
