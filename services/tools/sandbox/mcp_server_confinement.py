"""Confinement of a server that an operator listed: that of tools' code, with the folders, and the
network, that the operator gives it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace

from services.tools.sandbox.confinement import SYSTEM_FILES, Confinement
from services.tools.sandbox.spawner_protocol import STAGE
from services.tools.sandbox.syscall_filter import syscall_filter

NETWORK_FILES = tuple(path for path in SYSTEM_FILES if path.startswith("/etc/"))
# Of the sandbox, and made by it.
OWN_FILES = ("/etc/passwd", "/etc/group")


@dataclass(frozen=True, slots=True)
class Granted:
    """The parts of the machine that a server sees, besides its programs and libraries."""

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = False


def confinement_for(base: Confinement, granted: Granted) -> Confinement:
    """The same confinement with what is granted."""
    rules = json.loads(base.argv[-1])
    rules["read"] += granted.readable
    rules["write"] += granted.writable
    argv = (*base.argv[:-1], json.dumps(rules))
    if not base.namespaces:
        return replace(base, name=f"{base.name} for a server", argv=argv)
    stage = list(base.stage)
    arguments: list[str] = []
    for option, paths in (("--ro-bind", granted.readable), ("--bind", granted.writable)):
        for path in paths:
            seen = path
            if base.first_uid is not None and base.stage:
                seen = f"{STAGE}/server/{len(stage)}"
                stage.append((path, seen))
            arguments += [option, seen, path]
    if granted.network:
        for path in NETWORK_FILES:
            if path not in OWN_FILES:
                arguments += ["--ro-bind-try", path, path]
    data = with_arguments(base.data[0], arguments, network=granted.network)
    calls = syscall_filter(os.uname().machine) if granted.network else base.data[1]
    return replace(
        base,
        name=f"{base.name} for a server",
        argv=argv,
        data=(data, calls, *base.data[2:]),
        stage=tuple(stage),
        network=() if granted.network else base.network,
    )


def with_arguments(data: bytes, more: list[str], *, network: bool) -> bytes:
    """The arguments of bubblewrap, with more mounts before its root is made read-only."""
    words = data.decode().split("\0")[:-1]
    if network and "--unshare-net" in words:
        words.remove("--unshare-net")
    root = max(
        number
        for number, word in enumerate(words)
        if words[number : number + 2] == [word, "/"]
        if word == "--remount-ro"
    )
    words[root:root] = more
    return b"".join(word.encode() + b"\0" for word in words)
