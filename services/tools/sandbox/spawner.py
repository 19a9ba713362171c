"""Starts sandboxes: a small process of one thread, so that a start costs no copy of a service.

It is told once how (`Setup`), then receives for each sandbox a number and five open files, and
answers with its process id, and with how it ended. When whoever started it goes away, it kills
what it started and ends. It runs by itself, without the packages of Heeler.
"""

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
from typing import Any

MARK = "HEELER_SPAWNER"
MESSAGE_BYTES_MAX = 1 << 17
FILES = 5  # stdin, stdout, stderr, result, status
PARKED_FILES = 64  # where files wait until their places are free
STAGE = "/mnt"
USERS = 4096
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # the service says when to stop
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SET_INTERFACE_FLAGS, INTERFACE_UP = 0x8914, 1
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

libc = ctypes.CDLL(None, use_errno=True)


def mount(
    source: str | None, target: str, kind: str | None, flags: int, data: str | None = None
) -> None:
    """Call mount(2); raises OSError if it fails."""
    texts = [text.encode() if text else None for text in (source, target, kind)]
    if libc.mount(*texts, ctypes.c_ulong(flags), data.encode() if data else None) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), target)


def stage(binds: list[tuple[str, str]]) -> None:
    """See some folders under short paths that every user can reach, in a mount namespace of our
    own: the interpreter may lie in a home that is closed to the user of the sandbox."""
    os.unshare(os.CLONE_NEWNS)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount("tmpfs", STAGE, "tmpfs", 0, "mode=0755,size=65536")
    for source, target in binds:
        if os.path.isdir(source):
            os.makedirs(target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(source, target, None, MS_BIND | MS_REC)


def make_network(settings: dict[str, str]) -> None:
    """A network of our own with nothing but loopback, which the sandbox gets; a server that is not
    root needs a user namespace for that, which is left with the program that comes next."""
    uid, gid = os.geteuid(), os.getegid()
    os.unshare(CLONE_NEWNET if uid == 0 else CLONE_NEWUSER | CLONE_NEWNET)
    if uid != 0:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{uid} {uid} 1")
        write("/proc/self/gid_map", f"{gid} {gid} 1")
    for name, value in settings.items():
        write(f"/proc/sys/{name}", value)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        asked = struct.pack("16sh14x", b"lo", INTERFACE_UP)
        fcntl.ioctl(made, SET_INTERFACE_FLAGS, asked)


def write(path: str, text: str) -> None:
    """Write a text to a file of the kernel."""
    with open(path, "w") as file:
        file.write(text)


class Spawner:
    """The started processes, by process id."""

    def __init__(self, control: socket.socket, setup: dict[str, Any]) -> None:
        self.pid = os.getpid()
        self.control = control
        self.argv: list[str] = setup["argv"]
        self.data = [base64.b64decode(text) for text in setup["data"]]
        self.first_uid = setup["first_uid"]
        self.folder = setup["folder"]
        self.network = setup["network"]
        self.mark = setup["mark"]
        self.names: dict[int, int] = {}

    def tell(self, message: dict[str, object]) -> None:
        """Send a message to the process that started this one."""
        self.control.send(json.dumps(message).encode())

    def spawn(self, asked: dict[str, Any], files: list[int]) -> None:
        """Start one sandbox, as it was asked for."""
        name: int = asked["name"]
        try:
            pid = os.fork()
        except OSError as error:
            self.tell({"name": name, "failed": str(error)})
            return
        if pid == 0:
            try:
                self.become(asked, files)
            finally:
                os._exit(126)
        self.names[pid] = name
        self.tell({"name": name, "pid": pid})

    def become(self, asked: dict[str, Any], files: list[int]) -> None:
        """Turn into the sandbox; never returns. One with a folder of its own that stays is a user
        that stays, too."""
        name: int = asked["name"]
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, *IGNORED):
            signal.signal(number, signal.SIG_DFL)
        self.place(files, asked.get("arguments", []))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        folder = os.path.join(self.folder, str(name)) if self.folder else ""
        if self.network:
            make_network(self.network)
        if self.first_uid is not None:
            uid = asked.get("uid") or self.first_uid + name % USERS
            if folder:
                os.chown(folder, uid, uid)
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self.pid:
            return
        if folder:
            os.chdir(folder)
        os.execve(self.argv[0], self.argv, {MARK: self.mark})

    def place(self, files: list[int], arguments: list[str]) -> None:
        """The files at 0 to 4, then what the program reads at its start, of which the first are
        arguments: these come before them; nothing else."""
        more = b"".join(argument.encode() + b"\0" for argument in arguments)
        for data in (more + self.data[0], *self.data[1:]):
            file = os.memfd_create("data")
            os.write(file, data)
            os.lseek(file, 0, os.SEEK_SET)
            files.append(file)
        parked = [fcntl.fcntl(file, fcntl.F_DUPFD, PARKED_FILES) for file in files]
        for number, file in enumerate(parked):
            os.dup2(file, number)
        os.closerange(len(parked), 4096)

    def reap(self) -> None:
        """Tell of all that have ended."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                self.end_strays()
                return
            name = self.names.pop(pid, None)
            if name is not None:
                code = os.waitstatus_to_exitcode(status)
                cpu = used.ru_utime + used.ru_stime
                self.tell({"name": name, "ended": code, "cpu": cpu, "rss": used.ru_maxrss << 10})

    def serve(self, wake: int) -> None:
        """Until nobody asks any more."""
        while True:
            ready, _, _ = select.select([self.control.fileno(), wake], [], [])
            if wake in ready:
                os.read(wake, 4096)
                self.reap()
            if self.control.fileno() in ready:
                message, files, _, _ = socket.recv_fds(self.control, MESSAGE_BYTES_MAX, FILES)
                if not message:
                    return
                self.spawn(json.loads(message), files)
                for file in files:
                    os.close(file)

    def end_strays(self) -> None:
        """Kill what was left to us by a sandbox that ended: the first process of one that was
        killed while it started waits for ever otherwise."""
        if not self.folder or not self.names:
            for pid in children():
                if pid not in self.names:
                    kill(pid)

    def kill_all(self) -> None:
        """Leave nothing behind, also nothing that is left to us meanwhile."""
        for pid in self.names:
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        while True:
            for pid in children():
                kill(pid)
            try:
                os.wait()
            except ChildProcessError:
                return


def children() -> list[int]:
    """Our child processes, those included whose parents have ended."""
    me = os.getpid()
    with open(f"/proc/{me}/task/{me}/children") as file:
        return [int(pid) for pid in file.read().split()]


def kill(pid: int) -> None:
    """Kill a process that may have ended already."""
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def main() -> None:
    """Serve whoever holds the other end of the socket."""
    os.umask(0o022)  # the users of sandboxes pass through what is staged for them
    control = socket.socket(fileno=int(sys.argv[1]))
    setup = json.loads(control.recv(MESSAGE_BYTES_MAX))
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake, written = os.pipe()
    os.set_blocking(written, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    spawner = Spawner(control, setup)
    try:
        if setup["stage"]:
            stage(setup["stage"])
    except OSError as error:
        spawner.tell({"refused": str(error)})
        return
    spawner.tell({"ready": True})
    try:
        spawner.serve(wake)
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        spawner.kill_all()


main()
