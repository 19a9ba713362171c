"""Headers arrive as if nats-py had written them one by one."""

from __future__ import annotations

import pytest
from nats.aio.client import Client

from libs.bus import message_headers


class WritingClient(Client):
    """A client that keeps what it would send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    async def _send_command(self, cmd: bytes, priority: bool = False) -> None:
        self.sent.append(bytes(cmd))


async def received(sent: dict[str, str]) -> dict[str, str]:
    """What arrives of headers."""
    client = WritingClient()
    await client._send_publish("subject", "", b"payload", len(b"payload"), sent)
    [publish] = client.sent
    _, _, lines = publish.removesuffix(b"payload\r\n").partition(b"NATS/1.0\r\n")
    return Client._parse_header_lines(lines)


VALUES = ["", "plain", "Jürgen 日本", "a: b", " x", "two\nlines", "\r\nforged: yes", "\x7f\x00"]


@pytest.mark.parametrize("value", VALUES)
async def test_written_headers_arrive_as_any_others(value: str) -> None:
    sent = {"ce-id": "m-1", "heeler-actor": value, "last": "x"}
    arrived = await received(message_headers.encoded_headers(sent))
    assert arrived == await received(sent)
    assert list(arrived) == list(sent)


def test_headers_without_line_breaks_are_written_as_one() -> None:
    assert (
        len(message_headers.encoded_headers({"ce-id": "m-1", "ce-type": "agent.run.accepted"})) == 1
    )
