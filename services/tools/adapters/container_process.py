"""One sandbox that is a container, as the process that is first in it tells of it."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

from services.tools.adapters.container_engine import (
    Cleanup,
    ContainerEngine,
    container_name,
    ends_within,
    last_line,
)
from services.tools.adapters.running_sandbox import (
    Ended,
    NotStarted,
    Output,
    RunningSandbox,
    SandboxUse,
)
from services.tools.sandbox.ports import Workspace
from services.tools.sandbox.spawner_protocol import (
    LENGTH_BYTES,
    READY,
    RESULT_BYTES_MAX,
)

# As in container_init.py.
INPUT, FREEZE, THAW = b"I", b"F", b"T"
STDOUT, STDERR, RESULT, USE, FROZEN, ENDED = b"O", b"E", b"R", b"U", b"F", b"X"
HEADER_BYTES = 5
FRAME_BYTES_MAX = 1 << 16
ENGINE_WORDS_BYTES_MAX = 4_096
READY_SECONDS_MAX = 60.0
FREEZE_SECONDS_MAX = 10.0
END_SECONDS_MAX = 10.0
# Containers that have been used and are not removed yet; beyond that their users wait.
ENDING_MAX = 16
KILLED = Ended(-9)


class ContainerProcess(RunningSandbox):
    """A container. What its first process says is
    taken for what it is: nothing of a program can speak in its place."""

    def __init__(
        self, engine: ContainerEngine, cleanup: Cleanup, workspace: Workspace | None, packages: str
    ) -> None:
        super().__init__()
        self.engine = engine
        self.cleanup = cleanup
        self.workspace = workspace
        self.packages = packages
        self.name = container_name()
        self.stdout, self.stderr = Output(0), Output(0)
        self.result = Output(LENGTH_BYTES + RESULT_BYTES_MAX + len(READY))
        self.engine_words = Output(ENGINE_WORDS_BYTES_MAX)
        self.used = SandboxUse()
        self.frozen = asyncio.Event()
        self.process: asyncio.subprocess.Process | None = None
        self.tasks: list[asyncio.Task[None]] = []
        self.over: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.closing: asyncio.Task[Ended] | None = None

    @property
    def ended(self) -> bool:
        return self.over.done()

    @property
    def died(self) -> bool:
        """The same: the engine tells at once."""
        return self.over.done()

    async def ready(self) -> None:
        self.process = await self.engine.run(self.name, self.workspace, self.packages)
        self.tasks = [asyncio.create_task(self.read()), asyncio.create_task(self.read_engine())]
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                while not self.result.kept and not self.ended:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise NotStarted("the container did not become ready in time") from None
        if self.ended:
            printed = last_line(self.engine_words.kept) or last_line(self.stderr.kept)
            raise NotStarted(printed or f"it ended at once, with status {self.over.result().code}")

    async def read(self) -> None:
        """Hear what its first process tells, until the command of the engine ends."""
        assert self.process is not None
        assert self.process.stdout is not None
        reader = self.process.stdout
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                header = await reader.readexactly(HEADER_BYTES)
                size = int.from_bytes(header[1:], "big")
                if size > FRAME_BYTES_MAX:
                    break
                self.hear(header[:1], await reader.readexactly(size))
                self.notice()
        if not self.ended:  # nobody said so: the engine, or its command, was ended
            with suppress(NotStarted, OSError):
                await self.engine.remove(self.name)
            self.settle(KILLED)

    def settle(self, how: Ended) -> None:
        """Set how the process ended, once."""
        if not self.over.done():
            self.over.set_result(how)
        self.notice()

    async def read_engine(self) -> None:
        """Keep what the command of the engine says of itself."""
        assert self.process is not None
        assert self.process.stderr is not None
        while piece := await self.process.stderr.read(ENGINE_WORDS_BYTES_MAX):
            self.engine_words.take(piece)

    def hear(self, channel: bytes, data: bytes) -> None:
        """Take one frame of the container's output."""
        if channel == STDOUT:
            self.stdout.take(data)
        elif channel == STDERR:
            self.stderr.take(data)
        elif channel == RESULT:
            self.result.take(data)
        elif channel == USE:
            self.used = SandboxUse(**json.loads(data))
        elif channel == FROZEN:
            self.frozen.set()
        elif channel == ENDED:
            self.settle(Ended(**json.loads(data)))

    def use(self) -> SandboxUse:
        """The last reported usage, at most a tenth of a second old while the process runs."""
        used = self.used
        return SandboxUse(
            used.processes, used.threads, used.memory_bytes, used.cpu_seconds, used.files
        )

    async def send(self, data: bytes) -> None:
        """Send the process the program that it runs."""
        data = len(data).to_bytes(LENGTH_BYTES, "big") + data
        for start in range(0, len(data), FRAME_BYTES_MAX):
            self.write(INPUT, data[start : start + FRAME_BYTES_MAX])
            if self.process is not None and self.process.stdin is not None:
                with suppress(ConnectionError):
                    await self.process.stdin.drain()

    def write(self, channel: bytes, data: bytes = b"") -> None:
        """One frame to its first process, unless it has ended."""
        stdin = self.process.stdin if self.process is not None else None
        if stdin is not None and not self.ended and not stdin.is_closing():
            stdin.write(channel + len(data).to_bytes(HEADER_BYTES - 1, "big") + data)

    async def freeze(self) -> bool:
        """Stop everything in it but its first process, which waits."""
        self.frozen.clear()
        self.write(FREEZE)
        with suppress(TimeoutError):
            async with asyncio.timeout(FREEZE_SECONDS_MAX):
                while not (self.frozen.is_set() or self.ended):
                    self.changed.clear()
                    await self.changed.wait()
        return self.frozen.is_set()

    def thaw(self) -> None:
        self.write(THAW)

    def kill(self) -> None:
        """End everything in it: its first process does, when nobody speaks to it any more."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    async def close(self) -> Ended:
        """Kill it, wait until nothing of it runs, and say what it used. The container is removed
        after that, while others go on."""
        if self.process is None:
            return KILLED
        if self.closing is None:
            self.closing = asyncio.ensure_future(self.kill_and_remove())
        return await asyncio.shield(self.closing)

    async def kill_and_remove(self) -> Ended:
        """Kill and remove the container, once."""
        self.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS_MAX):
                await asyncio.shield(self.over)
        if not self.ended:
            await self.engine.remove(self.name)
            self.settle(KILLED)
        self.cleanup.begin(self.ensure_removed())
        await self.cleanup.below(ENDING_MAX)
        return self.over.result()

    async def ensure_removed(self) -> None:
        """Return once the container is gone. The engine removes it when its first process has
        ended; if the engine does not, it is removed by force."""
        assert self.process is not None
        if not await ends_within(self.process, END_SECONDS_MAX):
            await self.engine.remove(self.name)
            if not await ends_within(self.process, END_SECONDS_MAX):
                self.process.kill()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
