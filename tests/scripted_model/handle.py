"""Start a scripted model from a test, in this process or in its own."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from tests.scripted_model.http1 import Connection
from tests.scripted_model.server import Server

BACKLOG_MAX = 4096
START_SECONDS_MAX = 20.0
STOP_SECONDS_MAX = 5.0
POLL_SECONDS = 0.005
READY = "scripted model on "
_ROOT = Path(__file__).resolve().parents[2]


class Admin:
    """The admin routes of a running scripted model, over HTTP."""

    origin: str  # http://host:port

    @property
    def base_url(self) -> str:
        """What to give an OpenAI client: the origin with /v1."""
        return f"{self.origin}/v1"

    @property
    def anthropic_base_url(self) -> str:
        """What to give an Anthropic client, which adds /v1 by itself."""
        return f"{self.origin}/anthropic"

    async def stats(self) -> dict[str, Any]:
        """Counters; see `Stats`. Steps are strings, for they are keys of JSON."""
        return await self._call("GET", "/_stats")  # type: ignore[no-any-return]

    async def asked(self, text: str) -> dict[int, int]:
        """How often each step of this user text was asked: {step: times}."""
        return await self._steps("by_text", text)

    async def answered(self, text: str) -> dict[int, int]:
        """How often each step of this user text was answered in full: {step: times}."""
        return await self._steps("answered_by_text", text)

    async def wait_for_asked(
        self, text: str, *, step: int = 0, times: int = 1, timeout_seconds: float = 10.0
    ) -> None:
        """Returns once this step was asked so often; raises TimeoutError otherwise."""
        async with asyncio.timeout(timeout_seconds):
            # The model may live in another process: there is no event to await.
            while (await self.asked(text)).get(step, 0) < times:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)

    async def wait_for_count(
        self, name: str, *, times: int = 1, timeout_seconds: float = 10.0
    ) -> None:
        """Returns once this counter (abandoned, fault_hang, ...) is so high, or TimeoutError."""
        async with asyncio.timeout(timeout_seconds):
            while (await self.stats())["counts"].get(name, 0) < times:  # noqa: ASYNC110
                await asyncio.sleep(POLL_SECONDS)

    async def requests(self, last: int | None = None) -> list[dict[str, Any]]:
        """The last chat and embedding request bodies, oldest first (at most 256)."""
        query = "" if last is None else f"?last={last}"
        return await self._call("GET", f"/_requests{query}")  # type: ignore[no-any-return]

    async def reset(self) -> None:
        """Forgets counts, requests, the delay and pending failures."""
        await self._call("POST", "/_reset")

    async def delay(self, ms: float) -> None:
        """Delays every later chat and embeddings answer."""
        await self._call("POST", "/_delay", {"ms": ms})

    async def fail(self, status: int | str, count: int = 1, kind: str = "chat") -> None:
        """Fails the next `count` valid requests of this kind: chat or embeddings."""
        await self._call("POST", "/_fail", {"status": status, "count": count, "kind": kind})

    async def refuse(self, text: str, status: int | str = 400) -> None:
        """Fails every valid chat request that has this text anywhere, until the next reset."""
        await self._call("POST", "/_refuse", {"text": text, "status": status})

    async def answer(self, text: str, *bodies: Any, status: int = 200) -> None:
        """Answers the next valid chat requests that have this text anywhere with these bodies, one
        each: JSON, or, where a body is a text, the stream that it is."""
        given = [
            {"type": "text/event-stream", "body": body}
            if isinstance(body, str)
            else {"type": "application/json", "body": json.dumps(body)}
            for body in bodies
        ]
        answers = [{**fault, "status": status} for fault in given]
        await self._call("POST", "/_answer", {"text": text, "answers": answers})

    async def _steps(self, field: str, text: str) -> dict[int, int]:
        stats = await self._call("GET", f"/_stats?text={quote(text, safe='')}")
        return {int(step): times for step, times in stats[field].get(text, {}).items()}

    async def _call(self, method: str, path: str, body: object = None) -> Any:
        address = urlsplit(self.origin)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            sent = b"" if body is None else json.dumps(body).encode()
            head = f"{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {len(sent)}"
            writer.write(head.encode() + b"\r\n\r\n" + sent)
            head_read, _, answer = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
            await writer.wait_closed()
        if head_read.split(b" ", 2)[1] != b"200":
            raise RuntimeError(f"{method} {path}: {answer.decode()}")
        return json.loads(answer)


class ScriptedModel(Admin):
    """A scripted model inside this process: `async with ScriptedModel() as model`."""

    def __init__(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self._host, self._port = host, port
        self.clients: set[Connection] = set()  # those that are connected
        self.server = Server()

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.get_running_loop().create_server(
            lambda: Connection(self.server.answer, self.clients),
            self._host,
            self._port,
            backlog=BACKLOG_MAX,
        )
        host, port = self._listener.sockets[0].getsockname()[:2]
        self.origin = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._listener.close()
        for client in tuple(self.clients):
            client.abort()
        await self._listener.wait_closed()


class ScriptedModelProcess(Admin):
    """A scripted model in a process of its own, which ends with this one."""

    def __init__(self, *, port: int = 0) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.scripted_model", "--until-stdin-closes"),
            *("--port", str(self._port)),
            cwd=_ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS_MAX):
            line = (await self._process.stdout.readline()).decode().strip()
        if not line.startswith(READY):
            raise RuntimeError(f"The scripted model did not start on port {self._port}: {line!r}")
        self.origin = line.removeprefix(READY)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS_MAX):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
