"""Processes that are MCP servers: walled in as the code of tools is, and watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic_core import to_json

from services.tools.adapters.mcp.allowed_commands import AllowedCommand
from services.tools.adapters.mcp.ports import McpFailed, McpFailureKind
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.adapters.process_sandbox_pool import ProcessSandboxPool
from services.tools.adapters.process_usage import usage_of
from services.tools.adapters.sandbox_process import SandboxProcess
from services.tools.adapters.sandbox_spawner_client import SpawnerFailed
from services.tools.sandbox.confinement import Confinement
from services.tools.sandbox.mcp_server_confinement import confinement_for

LOOK_SECONDS = 1.0
STDERR_BYTES_MAX = 4_096
STDERR_CHARS_MAX = 400
FILE_BYTES_MAX = 1 << 30
OPEN_FILES_MAX = 1_024  # Node reads the modules of a program all at once
# A server may live for weeks; what it does with its time is bounded by its importance alone.
CPU_SECONDS_MAX = 30 * 86_400
END_SECONDS_MAX = 1.0


@dataclass(slots=True, eq=False)
class ServerProcess:
    """A process that is a server; `end` is told why when it has to end."""

    sandbox: SandboxProcess
    command: AllowedCommand
    end: Callable[[McpFailed], None]
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    async def failure_at_end(self) -> McpFailed:
        """The failure that says how the process ended, with what it printed last."""
        with suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS_MAX):
                await asyncio.shield(self.sandbox.started.ended)
        self.sandbox.stderr.read_rest()
        words = "its process ended"
        if self.sandbox.ended:
            words += f" with status {self.sandbox.started.ended.result().code}"
        printed = self.sandbox.stderr.kept.decode("utf-8", "replace").strip()
        if printed:
            words += f": {printed[-STDERR_CHARS_MAX:]}"
        return McpFailed("unreachable", words)

    async def watch(self) -> None:
        """End it when it uses more than it may."""
        while not self.sandbox.ended:
            await asyncio.sleep(LOOK_SECONDS)
            init = self.sandbox.init
            if init is None:
                continue
            usage = await asyncio.to_thread(usage_of, init)
            if usage.memory_bytes > self.command.memory_bytes:
                megabytes = self.command.memory_bytes >> 20
                self.kill(f"its process used more than {megabytes} MiB of memory")
            elif usage.threads > self.command.processes * 2 + 8:
                self.kill(f"its process had more than {self.command.processes} others")

    def kill(self, words: str, kind: McpFailureKind = "unreachable") -> None:
        """End it because of what it does."""
        self.end(McpFailed(kind, words))
        self.sandbox.kill()


class ServerProcesses:
    """Starts servers that the operator listed, confined as the sandbox confines code."""

    def __init__(self, sandbox: ProcessSandbox | None) -> None:
        self.sandbox = sandbox
        self.pools: dict[tuple[str, ...], ProcessSandboxPool] = {}

    def refusal(self) -> str:
        """Why no program is started here; empty if it may be."""
        if self.sandbox is None:
            return "Servers that are programs need the sandbox of processes: HEELER_SANDBOX=process"
        if self.sandbox.refusal:
            return f"Servers that are programs run in the sandbox. {self.sandbox.refusal}"
        return ""

    async def start(
        self,
        command: AllowedCommand,
        environment: Mapping[str, str],
        end: Callable[[McpFailed], None],
    ) -> ServerProcess:
        """A process that has begun. Raises McpFailed."""
        if self.sandbox is None or self.sandbox.pool is None:
            raise McpFailed("refused", self.refusal())
        base = self.sandbox.pool.confinement
        pool = self.pools.get(command.argv)
        if pool is None:
            confinement = confinement_for(base, command.granted)
            pool = self.pools[command.argv] = ProcessSandboxPool(
                confinement, idle_min=0, idle_max=0
            )
        try:
            sandbox = await pool.cold()
        except (SpawnerFailed, OSError) as failed:
            raise McpFailed("unreachable", f"its process could not be started: {failed}") from None
        sandbox.stderr.kept_bytes = STDERR_BYTES_MAX
        sandbox.stderr.kept.clear()
        process = ServerProcess(sandbox, command, end)
        try:
            await sandbox.send(to_json(self.process_fields(command, environment, base)))
        except BaseException:
            await asyncio.shield(self.stop(process))
            raise
        process.task = asyncio.create_task(process.watch())
        return process

    def process_fields(
        self, command: AllowedCommand, environment: Mapping[str, str], base: Confinement
    ) -> Mapping[str, object]:
        """The fields for the process inside about the server that it becomes."""
        return {
            "argv": command.argv,
            "language": "javascript",  # no bound on addresses, of which engines set aside many
            "environment": dict(environment),
            "folder": None,
            "limits": {
                "cpu_seconds": CPU_SECONDS_MAX,
                "memory_bytes": None,
                "processes": command.processes if base.counts_processes else None,
                "file_bytes": FILE_BYTES_MAX,
                "open_files": OPEN_FILES_MAX,
            },
        }

    async def stop(self, process: ServerProcess) -> None:
        """Kill a server and all that came of it, and wait for that."""
        if process.task is not None:
            process.task.cancel()
        with suppress(TimeoutError):
            await process.sandbox.close()
        pool = self.pools.get(process.command.argv)
        if pool is not None:
            await pool.give_back(process.sandbox)

    async def close(self) -> None:
        """Kill the processes of all servers."""
        await asyncio.gather(*[pool.close() for pool in self.pools.values()])
        self.pools.clear()
