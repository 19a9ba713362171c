"""Start the processes of services by forking one that has imported what they need."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from contextlib import suppress

import psutil

from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance
from deploy.embedded.process_control import adopting
from deploy.embedded.subprocesses import (
    UMASK,
    Child,
    Command,
    kill_tree,
    open_log,
    spawn,
    start_program,
)
from deploy.embedded.supervised_process import FIRST_ANSWER_WITHIN
from libs.work.fork_server import ForkServerHandle

# After so many failures in a row a process is started the way of every program.
FAILURES_MAX = 2
REAP_SECONDS = 10.0


def can_fork() -> bool:
    """Whether the system lets this process have children that another one forks, and wait for them:
    Linux 5.3 and later does."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return False
    with adopting() as adopts:
        return adopts


class ForkedProcess:
    """A child of this process that another one forked for it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        try:
            self._watched = os.pidfd_open(pid)
            self._loop.add_reader(self._watched, self._reap)
        except OSError:  # nobody would know of it
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    async def wait(self) -> int:
        """Its exit code once it has ended; that of a signal is negative."""
        return await asyncio.shield(self._ended)

    def _reap(self) -> None:
        self._loop.remove_reader(self._watched)
        os.close(self._watched)
        self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._ended.set_result(self.returncode)


class ServiceForks:
    """The fork server of the supervisor, as `command` starts it. Where it ends it is started again
    for the next process; those that it forked go on."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._server = ForkServerHandle(self._start_server)
        self._failures = 0  # in a row
        self._ended: set[int] = set()  # the children that were seen to have ended

    def prepare(self) -> None:
        """Start the fork server: it imports while others start."""
        self._server.ensure_started()

    async def start(self, command: Command) -> Child:
        """Start `python -m <module>`, the module being the last word of the command; after
        FAILURES_MAX forks that failed in a row, as any program. Call it on the main thread. Raises
        OSError."""
        if self._failures >= FAILURES_MAX:
            self._failures = 0  # the next one is tried by a fork again
            return await start_program(command)
        try:
            forked = await self._fork(command)
        except OSError:
            self._failures += 1
            raise
        self._failures = 0
        return forked

    async def reap(self) -> None:
        """Wait for the children that ended before anybody knew of them, and for those that were
        adopted from a process that ended: what is watched is waited for much sooner."""
        await asyncio.sleep(REAP_SECONDS)
        children = psutil.Process().children()
        ended = {each.pid for each in children if each.status() == psutil.STATUS_ZOMBIE}
        for pid in ended & self._ended:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # noqa: ASYNC222  it does not wait
        self._ended = ended

    async def _fork(self, command: Command) -> ForkedProcess:
        """Have a process forked that becomes what the command says. Raises OSError."""
        ours, theirs = socket.socketpair()
        with adopting(), theirs, open_log(command.log) as log:
            try:
                self._server.send(theirs.fileno(), log.fileno(), *command.descriptors)
            except OSError:
                ours.close()
                raise
            theirs.close()
            return ForkedProcess(await self._ask(ours, command))

    def close(self) -> None:
        """End the fork server; what it forked goes on."""
        self._server.close()

    async def _ask(self, connection: socket.socket, command: Command) -> int:
        """The pid of the process to which a connection leads, when it has become what is asked
        for."""
        reader, writer = await asyncio.open_unix_connection(sock=connection)
        asked = {
            "argv": command.argv,
            "environment": command.environment,
            "folder": str(command.folder),
            "descriptors": command.descriptors,
            "orphan_signal": int(command.orphan_signal),
            "umask": UMASK,
        }
        try:
            writer.write(json.dumps(asked).encode() + b"\n")
            answer = asyncio.ensure_future(read_pid(reader))
            allowance = Allowance(FIRST_ANSWER_WITHIN)
            while not (await asyncio.wait([answer], timeout=LOOK_AGAIN_SECONDS))[0]:
                server = self._server.program
                if server and allowance.is_spent(server.pid):
                    kill_tree(server.pid)
            return answer.result()
        finally:
            writer.close()

    def _start_server(self, control: int) -> subprocess.Popen[bytes]:
        return spawn(self._command, stdin=control)


async def read_pid(reader: asyncio.StreamReader) -> int:
    """What a forked process says first. Raises ChildProcessError where it ends before that."""
    with suppress(ConnectionError):
        if line := await reader.readline():
            return int(line)
    raise ChildProcessError("the process that forks those of the services ended meanwhile")
