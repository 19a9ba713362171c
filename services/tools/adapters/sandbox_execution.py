"""One program in one sandbox: how long it may go on, what it used, how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pydantic_core import from_json, to_json

from libs.contracts.bus_messages import Json, JsonObject
from libs.telemetry import metrics
from services.tools.adapters.running_sandbox import (
    DROPPED_BYTES_MAX,
    Ended,
    RunningSandbox,
    SandboxUse,
)
from services.tools.sandbox.ports import Limits, Outcome, Status

# How often it is looked at what a program uses: seldom once it runs for long.
LOOK_SECONDS = 0.03
LOOK_SECONDS_MAX = 0.1
SCRATCH_FILES_MAX = 50_000
# Each holds up to some 300 KiB of the kernel's memory, which nothing else counts.
SOCKETS_MAX = 256
SIGNAL_STATUS = 128  # what the first process of a sandbox adds to the number of a signal
CPU_SIGNAL = 24

type Verdict = tuple[Status, str]
type Answer = Callable[[str, JsonObject], Awaitable[JsonObject]]


class Execution:
    """Runs one program to its end. The sandbox is closed after it, however it ended; one that
    `stays` only if the program did not end by itself."""

    def __init__(
        self,
        sandbox: RunningSandbox,
        limits: Limits,
        *,
        stays: bool = False,
        answer: Answer | None = None,
    ) -> None:
        self.answer = answer
        self.sandbox = sandbox
        self.limits = limits
        self.stays = stays
        self.processes_max = 0
        self.cpu_seconds_before = 0.0
        self.loop = asyncio.get_running_loop()
        self.verdict: Verdict | None = None
        self.memory_bytes_max = 0
        self.cpu_seconds = 0.0

    async def outcome(self, data: bytes) -> Outcome:
        """Send the program, wait, and say what came of it."""
        began = self.loop.time()
        if self.stays:
            self.cpu_seconds_before = self.sandbox.use().cpu_seconds
        self.sandbox.keep_output(self.limits.output_bytes)
        watching = asyncio.create_task(self.watch())
        try:
            async with asyncio.timeout(self.limits.seconds):
                await self.sandbox.send(data)
                await self.over()
        except TimeoutError:
            why = f"It ran longer than {self.limits.seconds:g} seconds"
            self.verdict = over_limit("time", why, "timeout")
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            seconds = self.loop.time() - began
            if self.may_stay():
                ended = Ended(0)
            else:
                ended = await asyncio.shield(asyncio.ensure_future(self.sandbox.close()))
        return self.ending(ended, seconds)

    def may_stay(self) -> bool:
        """Whether the sandbox may run another program; then all that this one said is read."""
        sandbox = self.sandbox
        if not self.stays or self.verdict or sandbox.ended or sandbox.frame is None:
            return False
        self.look()
        sandbox.stdout.read_present()
        sandbox.stderr.read_present()
        return self.verdict is None

    async def over(self) -> None:
        """Until there is a result, a verdict, or no process."""
        sandbox = self.sandbox
        while not (self.verdict or sandbox.ended):
            sandbox.changed.clear()
            if sandbox.frame is not None:
                called = called_in(sandbox.frame) if self.answer else None
                if called is None:
                    return
                sandbox.forget_result()
                await self.answer_call(*called)
            elif sandbox.frame_is_too_long:
                self.verdict = over_limit("result", "It announced a result longer than any may be")
            elif (
                max(sandbox.stdout.dropped_bytes, sandbox.stderr.dropped_bytes) > DROPPED_BYTES_MAX
            ):
                why = f"It printed more than {DROPPED_BYTES_MAX >> 20} MiB"
                self.verdict = over_limit("output", why)
            else:
                await sandbox.changed.wait()

    async def answer_call(self, name: str, arguments: JsonObject) -> None:
        """Answer a call, unless the program ends before that."""
        assert self.answer is not None
        answer = asyncio.ensure_future(self.answer(name, arguments))
        try:
            while not (answer.done() or self.verdict or self.sandbox.ended):
                self.sandbox.changed.clear()
                changed = asyncio.ensure_future(self.sandbox.changed.wait())
                await asyncio.wait([answer, changed], return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.gather(answer, return_exceptions=True)
        if not answer.cancelled():
            await self.sandbox.send(to_json(answer.result(), inf_nan_mode="null"))

    async def watch(self) -> None:
        """Look at what it uses, and end it when that is too much."""
        pause = LOOK_SECONDS
        while self.verdict is None:
            await asyncio.sleep(pause)
            if self.verdict is None:
                self.look()
            pause = min(LOOK_SECONDS_MAX, pause * 1.2)
        self.sandbox.kill()
        self.sandbox.notice()

    def look(self) -> None:
        """Compare what all processes of the sandbox use together with the limits."""
        use = self.sandbox.use()
        use.cpu_seconds -= self.cpu_seconds_before
        self.processes_max = max(self.processes_max, use.processes - self.stays)
        self.memory_bytes_max = max(self.memory_bytes_max, use.memory_bytes)
        self.cpu_seconds = max(self.cpu_seconds, use.cpu_seconds)
        self.verdict = self.judge(use)

    def end(self, why: str) -> None:
        """End it, for a reason that somebody else has seen."""
        self.verdict = self.verdict or over_limit("workspace", why)
        self.sandbox.kill()
        self.sandbox.notice()

    def judge(self, use: SandboxUse) -> Verdict | None:
        """The verdict if a program uses more than its limits, else None."""
        limits = self.limits
        if use.memory_bytes > limits.memory_bytes:
            why = f"It used more than {limits.memory_bytes >> 20} MiB of memory"
            return over_limit("memory", why)
        if use.threads > limits.processes * 2 + 8:
            return over_limit("processes", f"It had more than {limits.processes} processes")
        if use.cpu_seconds > limits.cpu_seconds:
            return over_limit("cpu", f"It used more than {limits.cpu_seconds} seconds of CPU")
        if use.files > SCRATCH_FILES_MAX:
            return over_limit("files", f"It made more than {SCRATCH_FILES_MAX} files")
        if use.sockets > SOCKETS_MAX:
            return over_limit("sockets", f"It had more than {SOCKETS_MAX} sockets")
        return None

    def ending(self, ended: Ended, seconds: float) -> Outcome:
        """The outcome, by this process's own knowledge: nothing but a value is taken on trust."""
        sandbox = self.sandbox
        frame = sandbox.frame
        value: Json = None
        if self.verdict is not None:
            status, reason = self.verdict
        elif frame is None and ended.out_of_memory:
            status, reason = over_limit("memory", "It used more memory than it may have")
        elif frame is None:
            status, reason = verdict_without_result(ended)
        else:
            value, (status, reason) = read(frame)
        return Outcome(
            status,
            value=value,
            stdout=sandbox.stdout.text(),
            stderr=sandbox.stderr.text(),
            seconds=seconds,
            cpu_seconds=max(ended.cpu_seconds, self.cpu_seconds),
            memory_bytes_max=max(ended.memory_bytes_max, self.memory_bytes_max),
            processes_max=max(self.processes_max, 1),
            output_bytes=sandbox.stdout.total_bytes + sandbox.stderr.total_bytes,
            reason=reason,
        )


def over_limit(limit: str, reason: str, status: Status = "killed") -> Verdict:
    """That a program must end because of a limit, which is counted."""
    metrics.SANDBOX_LIMITS.labels(limit).inc()
    return status, reason


def read(frame: bytes) -> tuple[Json, Verdict]:
    """The value, status and reason that a program told; whatever else it wrote is its error."""
    try:
        answer = from_json(frame, allow_inf_nan=False)
    except ValueError:
        answer = None
    match answer:
        case {"status": "success", "value": value, **rest} if not rest:
            return value, ("success", "")
        case {"status": "error", "reason": str(reason), **rest} if not rest:
            return None, ("error", reason)
    return None, ("error", "It wrote something that is no result where its result is read")


def called_in(frame: bytes) -> tuple[str, JsonObject] | None:
    """The tool that a program calls and its arguments; None for what is no call."""
    try:
        answer = from_json(frame, allow_inf_nan=False)
    except ValueError:
        return None
    match answer:
        case {"call": str(name), "arguments": dict(arguments), **rest} if not rest:
            return name, arguments
    return None


def verdict_without_result(ended: Ended) -> Verdict:
    """The verdict on a program that ended without a result, from its exit status."""
    code = ended.code
    number = -code if code < 0 else code - SIGNAL_STATUS
    if number == CPU_SIGNAL:
        return over_limit("cpu", "It used all of its CPU time")
    if number > 0:
        return "killed", f"It was ended by signal {number}"
    return "error", f"It ended without a result (exit status {code})"
