"""The socket that the processes of the api accept from."""

from __future__ import annotations

import socket

from deploy.embedded.settings import LaunchError, Settings

LISTEN_BACKLOG = 2048


def open_listener(settings: Settings) -> socket.socket:
    """The socket that all replicas of the api accept from. A connection goes to one that is free
    to take it, never to one that is frozen or dead; while all of them restart it waits. A name may
    stand for several addresses, at which one api listens itself."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise LaunchError(
            f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}."
        ) from error
    listener.listen(LISTEN_BACKLOG)
    return listener
