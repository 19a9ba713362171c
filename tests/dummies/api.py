"""Answers every request with the health document."""

from __future__ import annotations

import asyncio
import json
import os
import socket

from nats.aio.client import Client
from nats.errors import Error as NatsError

from libs.contracts.service_registry import names
from tests.dummies.shell import postgres_answers, service


async def ping(client: Client, name: str) -> str:
    try:
        await client.request(f"$SRV.PING.{name}", b"", timeout=0.3)
    except (NatsError, TimeoutError):
        return "not answering"
    return "ok"


async def health(client: Client) -> dict[str, object]:
    others = [name for name in names() if name != "api"]
    answers = await asyncio.gather(*(ping(client, name) for name in others))
    return {
        "status": "ok",
        "version": "0.16.8",
        "server": "heeler dummy",
        "postgres": "ok" if await postgres_answers() else "not answering",
        "nats": "ok" if client.is_connected else "not connected",
        "services": dict(zip(others, answers, strict=True)),
    }


async def main() -> None:
    async with service("api") as (client, stop):

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            body = json.dumps(await health(client)).encode()
            head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
            writer.close()

        shared = os.environ.get("HEELER_LISTEN_DESCRIPTOR")
        if shared:
            server = await asyncio.start_server(answer, sock=socket.socket(fileno=int(shared)))
        else:
            host, port = os.environ["HEELER_HOST"], int(os.environ["HEELER_PORT"])
            server = await asyncio.start_server(answer, host, port)
        await stop.wait()
        server.close()


if __name__ == "__main__":
    asyncio.run(main())
