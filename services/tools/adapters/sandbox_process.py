"""One sandbox: a process that waits for a program, executes it, and is killed. One with a workspace
stays for further programs."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress

from services.tools.adapters.folder_removal import remove_folder
from services.tools.adapters.process_usage import is_stopped, scratch_of, sockets_of, usage_of
from services.tools.adapters.running_sandbox import (
    Ended,
    Output,
    RunningSandbox,
    SandboxUse,
)
from services.tools.adapters.sandbox_spawner_client import Spawner, SpawnerFailed, close_all
from services.tools.sandbox.ports import Workspace
from services.tools.sandbox.spawner_protocol import LENGTH_BYTES, LOCKED, READY, RESULT_BYTES_MAX

READ_BYTES = 1 << 16
OWN_PROCESSES = 1  # of those that are seen, the first one, which belongs to no program
STATUS_BYTES_MAX = 4_096
READY_SECONDS_MAX = 15.0
END_SECONDS_MAX = 10.0
SCRATCH_FOLDERS = ("/tmp", "/dev/shm")
# What forks while it is being frozen is seen by another look.
FREEZE_LOOKS_MAX = 100
FREEZE_LOOK_SECONDS = 0.005


class Stream(Output):
    """The bytes of a pipe, up to a bound; `on_data` is called after each piece."""

    def __init__(self, file: int, kept_bytes: int, on_data: Callable[[], None]) -> None:
        super().__init__(kept_bytes)
        self.file = file
        self.on_data = on_data
        self.ended = False
        self.loop = asyncio.get_running_loop()
        os.set_blocking(file, False)
        self.loop.add_reader(file, self.read)

    def read(self) -> bool:
        """Take one piece; false if there is none now."""
        try:
            piece = os.read(self.file, READ_BYTES)
        except BlockingIOError:
            return False
        if not piece:
            self.close()
        self.take(piece)
        self.on_data()
        return bool(piece)

    def read_present(self) -> None:
        """Take what is there now, within the bound."""
        while not self.ended and len(self.kept) < self.kept_bytes and self.read():
            pass

    def read_rest(self) -> None:
        """Take what is there now, and close."""
        self.read_present()
        self.close()

    def close(self) -> None:
        """Close the file and stop reading it."""
        if not self.ended:
            self.ended = True
            self.loop.remove_reader(self.file)
            os.close(self.file)


class SandboxProcess(RunningSandbox):
    """A process in a sandbox of its own. `init` is the first process of its namespace."""

    stdout: Stream
    stderr: Stream
    result: Stream

    def __init__(
        self, spawner: Spawner, workspace: Workspace | None = None, packages: str = ""
    ) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.spawner = spawner
        self.init: int | None = None
        self.handle: int | None = None
        pairs = [os.pipe() for _ in range(5)]
        self.program = pairs[0][1]
        theirs = [pairs[0][0], *(written for _, written in pairs[1:])]
        ours = [read for read, _ in pairs[1:]]
        try:
            self.started = spawner.spawn(theirs, workspace, packages)
        except SpawnerFailed:
            close_all([self.program, *ours])
            raise
        finally:
            close_all(theirs)
        os.set_blocking(self.program, False)
        bounds = (
            0,
            STATUS_BYTES_MAX,
            LENGTH_BYTES + RESULT_BYTES_MAX + len(READY),
            STATUS_BYTES_MAX,
        )
        streams = [
            Stream(file, bound, self.notice) for file, bound in zip(ours, bounds, strict=True)
        ]
        self.stdout, self.stderr, self.result, self.status = streams
        self.started.ended.add_done_callback(lambda _: self.notice())

    @property
    def ended(self) -> bool:
        return self.started.ended.done()

    @property
    def is_ready(self) -> bool:
        """Whether it waits for a program."""
        report = bytes(self.result.kept[:1])
        return self.init is not None and report in (READY, LOCKED) and not self.ended

    @property
    def died(self) -> bool:
        """Whether its first process has ended, also if nobody has been told yet."""
        if self.ended or self.handle is None:
            return True
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(0))

    async def ready(self) -> None:
        """Until it waits for a program; raises SpawnerFailed with what the machine said."""
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                pid = await asyncio.shield(self.started.pid)
                while not self.is_ready:
                    self.find_first_process(pid)
                    if self.ended:
                        raise SpawnerFailed(self.stderr_for_operator())
                    if self.is_ready:
                        break
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            raise SpawnerFailed("the sandbox did not become ready in time") from None

    def find_first_process(self, pid: int) -> None:
        """The first process of the sandbox, as soon as it is told."""
        if self.init is not None:
            return
        if not self.spawner.confinement.namespaces:
            self.init = pid
        else:
            with suppress(ValueError):
                line = bytes(self.status.kept).partition(b"\n")[0]
                report = json.loads(line)
                if isinstance(report, dict) and is_first(report.get("child-pid")):
                    self.init = report["child-pid"]
        if self.init is not None:
            with suppress(ProcessLookupError):
                self.handle = os.pidfd_open(self.init)

    def stderr_for_operator(self) -> str:
        """The error output from before there was any program."""
        self.stderr.read_rest()
        printed = self.stderr.kept.decode("utf-8", "replace").strip()
        return printed or f"it ended at once, with status {self.started.ended.result().code}"

    async def send(self, data: bytes) -> None:
        """Give it its program; it closes its end when it has read all."""
        data = len(data).to_bytes(LENGTH_BYTES, "big") + data
        while data and not self.ended:
            try:
                data = data[os.write(self.program, data) :]
            except BlockingIOError:
                await self.writable()
            except BrokenPipeError:
                return

    async def writable(self) -> None:
        """Until more of the program can be written."""
        able: asyncio.Future[None] = self.loop.create_future()

        def tell() -> None:
            if not able.done():
                able.set_result(None)

        self.loop.add_writer(self.program, tell)
        try:
            await able
        finally:
            self.loop.remove_writer(self.program)

    def use(self) -> SandboxUse:
        if self.init is None or self.died:
            return SandboxUse()
        usage = usage_of(self.init)
        use = SandboxUse(
            len(usage.pids) - OWN_PROCESSES, usage.threads, usage.memory_bytes, usage.cpu_seconds
        )
        if self.spawner.confinement.namespaces:
            use.sockets = sockets_of(self.init)
        for folder in SCRATCH_FOLDERS if self.spawner.confinement.namespaces else ():
            held, files = scratch_of(self.init, folder)
            use.memory_bytes += held
            use.files = max(use.files, files)
        return use

    async def freeze(self) -> bool:
        """Stop everything in it; false if it forks faster than it can be frozen."""
        for _ in range(FREEZE_LOOKS_MAX):
            pids = self.signal(signal.SIGSTOP)
            if all(is_stopped(pid) for pid in pids):
                return True
            await asyncio.sleep(FREEZE_LOOK_SECONDS)
        return False

    def thaw(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> list[int]:
        """Signal everything in it; returns what is in it after that."""
        for pid in self.pids():
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return self.pids()

    def pids(self) -> list[int]:
        """The ids of the sandbox's processes."""
        return [] if self.init is None or self.died else usage_of(self.init).pids

    def kill(self) -> None:
        """End it and everything in it: with its first process the kernel kills all others."""
        if self.handle is not None:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        pid = self.started.pid
        if self.ended or not pid.done() or pid.exception() is not None:
            return
        if not self.spawner.confinement.namespaces:
            kill_tree(pid.result())
        elif self.handle is None:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid.result(), signal.SIGKILL)

    async def close(self) -> Ended:
        self.kill()
        try:
            async with asyncio.timeout(END_SECONDS_MAX):
                with suppress(SpawnerFailed):
                    await asyncio.shield(self.started.pid)
                if self.spawner.confinement.namespaces:
                    self.status.read_rest()  # also where the spawner was killed in mid-start
                    self.find_first_process(0)
                self.kill()
                return await asyncio.shield(self.started.ended)
        finally:
            self.stdout.read_rest()
            self.stderr.read_rest()
            for stream in (self.result, self.status):
                stream.close()
            close_all([self.program])
            if self.handle is not None:
                close_all([self.handle])
                self.handle = None
            await self.remove_folder()

    async def remove_folder(self) -> None:
        """Nothing that it wrote stays, where it wrote into a folder of the machine."""
        folder = self.spawner.confinement.folder
        if folder:
            path = os.path.join(folder, str(self.started.name))
            with suppress(OSError):
                await remove_folder(path)


def is_first(pid: object) -> bool:
    """Whether a number is that of the first process of a namespace: nobody else is ever killed,
    though the number was given to another process meanwhile."""
    try:
        with open(f"/proc/{pid}/status") as file:
            line = next(line for line in file if line.startswith("NSpid:"))
    except (OSError, StopIteration):
        return False
    return line.split()[-1] == "1" and len(line.split()) > 2


def kill_tree(pid: int) -> None:
    """Kill a process group and what descends from it, where there is no namespace to end. What has
    left both, as daemons do, lives on."""
    for process in usage_of(pid).pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
