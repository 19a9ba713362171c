"""Messages to systemd about a server that it started: when it is ready, and when it stops."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

NOTIFY_SOCKET = "NOTIFY_SOCKET"


def is_listening() -> bool:
    """Whether systemd, or something that speaks as it does, waits to be told."""
    return bool(os.environ.get(NOTIFY_SOCKET))


def notify(*lines: str) -> None:
    """Send lines as `READY=1`; nothing happens where nobody waits for them."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if not address:
        return
    if address.startswith("@"):  # a name without a file
        address = f"\0{address[1:]}"
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto("\n".join(lines).encode(), address)
