"""Runs as a program of its own: forks the processes of the services from one that has imported what
they need, so that a start costs a fork.

It has one thread, and nothing of the environment of a service. What it forks is a child of the
supervisor: the process between the two ends at once, and the supervisor adopts what remains.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Mapping
from importlib import import_module
from runpy import run_module

from deploy.embedded.process_control import die_with, show_as
from libs.work.fork_server import serve

ADOPTION_POLL_SECONDS = 0.001


def become(files: list[int], supervisor: int) -> str:
    """Make this process what the supervisor asks for on the first of these files: a process with
    the log that is the second, and the others under the numbers that they have there. Returns the
    module to run. Ends the process where the supervisor has ended."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(ADOPTION_POLL_SECONDS)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection, log, *received = files
    os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)  # stdin, which is closed by now
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)
    with socket.socket(fileno=connection) as asking, asking.makefile("rwb") as stream:
        asked = json.loads(stream.readline())
        os.setpgid(0, 0)
        die_with(supervisor, signal.Signals(asked["orphan_signal"]))
        stream.write(b"%d\n" % os.getpid())
    place(dict(zip(received, asked["descriptors"], strict=True)))
    os.umask(asked["umask"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    show_as(asked["argv"], os.environ.items())
    module: str = asked["argv"][-1]
    sys.argv = [module]
    return module


def place(numbers: Mapping[int, int]) -> None:
    """Give open files these numbers, which children may have too."""
    free = max(numbers.values(), default=0) + 1
    moved = {number: fcntl.fcntl(file, fcntl.F_DUPFD, free) for file, number in numbers.items()}
    for file in numbers:
        os.close(file)
    for number, file in moved.items():
        os.dup2(file, number)
        os.close(file)


def main(modules: list[str]) -> None:
    """Serve the socket that is stdin, with these modules imported. What cannot be imported fails
    again, and is told, in the process that needs it."""
    supervisor = os.getppid()
    gc.disable()
    for module in modules:
        try:
            import_module(module)
        except (Exception, SystemExit):  # a process edge
            traceback.print_exc()
    gc.collect()
    gc.enable()
    # That what runs now was imported before, as a part of another, is meant.
    warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")
    if files := serve(socket.socket(fileno=0)):
        run_module(become(files, supervisor), run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
