"""Whether a server ends with the terminal that it was started in.

A SIGHUP asks for the configuration to be loaded anew. It is also what the kernel sends when a
terminal is closed: then a server in its foreground ends, unless `nohup` started it.
"""

from __future__ import annotations

import os
import signal

TERMINAL = "/dev/tty"  # that of the process that opens it


def ends_with_terminal() -> bool:
    """Whether this process has a terminal, and does not ignore its end."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and has_terminal()


def has_terminal() -> bool:
    """Whether this process has a terminal that is still there."""
    try:
        os.close(os.open(TERMINAL, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def outlive_hangups() -> None:
    """Not end by a SIGHUP until there is somebody who takes it; children have what is usual."""
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
