"""The port of the api: whether it is free, and the socket that its processes accept from."""

from __future__ import annotations

import socket

import psutil

from deploy.embedded.api_health import read_health
from deploy.embedded.command_name import launch_words
from deploy.embedded.settings import IS_CHECKOUT, LaunchError, Settings
from deploy.embedded.state import port_is_free

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


def require_free_port(settings: Settings) -> None:
    """Raise LaunchError, with the owner if he can be seen, when the API's port is taken."""
    if port_is_free(settings.host, settings.port):
        return
    owner = listener_of(settings.port)
    server = read_health(settings.reach_host, settings.port).server
    who = f" by {owner}" if owner else ""
    who += f", which is another Heeler ({server})" if server.startswith("heeler") else ""
    option = "HEELER_PORT=" if IS_CHECKOUT else "--port "
    raise LaunchError(
        f"Cannot listen on {settings.host}:{settings.port}: the port is taken{who}. "
        f"Choose another, for example: {launch_words('up')} {option}{settings.port + 1}"
    )


def listener_of(port: int) -> str | None:
    """The process that listens on a port, in words; None where it cannot be seen."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            listens = connection.status == psutil.CONN_LISTEN and connection.laddr
            if listens and connection.laddr.port == port and connection.pid:
                words = " ".join(psutil.Process(connection.pid).cmdline())
                return f"pid {connection.pid} ({words[:80]})"
    except psutil.Error:
        return None
    return None
