"""A server in the foreground of a terminal ends with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST, NOHUP = "signal.default_int_handler", "signal.SIG_IGN"
PROGRAM = """
import os, pty, signal
from deploy.embedded.terminals import ends_with_terminal, has_terminal

told, tell = os.pipe()
child, terminal = pty.fork()
if child == 0:
    signal.signal(signal.SIGHUP, HANDLER)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    os.close(told)
    os.write(tell, b"%d" % ends_with_terminal())
    if HANDLER != signal.SIG_IGN:
        signal.sigwait({signal.SIGHUP})
        os.write(tell, b"%d" % has_terminal())
    os._exit(0)
os.close(tell)
answer = os.read(told, 1)
os.close(terminal)
print((answer + os.read(told, 1)).decode())
"""


@pytest.mark.parametrize(("handler", "said"), [(FIRST, "10"), (NOHUP, "0")])
def test_a_terminal_that_is_closed_is_noticed_unless_nohup_started_it(
    handler: str, said: str
) -> None:
    program = PROGRAM.replace("HANDLER", handler)
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.strip() == said
