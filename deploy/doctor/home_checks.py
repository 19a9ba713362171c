"""The state folder, its disk, and the port of the API."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from deploy.containers.project import Project
from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.embedded.api_health import read_health
from deploy.embedded.listener import listener_of
from deploy.embedded.service_environment import changed_variables, fingerprints
from deploy.embedded.state import port_is_free
from deploy.embedded.subprocesses import LOGS_KEPT

MIB, GIB = 1 << 20, 1 << 30
FREE_BYTES_MIN, FREE_BYTES_LOW = 256 * MIB, 2 * GIB
FREE_INODES_MIN, FREE_INODES_LOW = 1_000, 20_000
OTHERS = stat.S_IRWXO
PORTS_TRIED_MAX = 200
REMOVABLE = ("nats/store.damaged-*", "*.damaged-*", "postgres.before-*", "postgres.new")
SECRETS = "secrets.json"


def check_home(examined: Examined) -> Finding:
    """Whether the state folder can be used, and by its owner alone."""
    home, shown = examined.home, shlex.quote(str(examined.home))
    elsewhere = 'export HEELER_HOME="$HOME/.heeler"'
    if not home.exists():
        parent = _nearest(home)
        if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
            return problem(f"{home} cannot be made: {parent} cannot be written to", elsewhere)
        return ok(f"{home} is made at the first start")
    if not home.is_dir():
        return problem(f"{home} is no folder", elsewhere)
    found = home.stat()
    if found.st_uid not in (os.geteuid(), 0) and os.geteuid() != 0:
        owner = f"uid {found.st_uid}"
        return problem(f"{home} belongs to {owner}", f"sudo chown -R {os.geteuid()} {shown}")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        return problem(f"{home} cannot be written to", f"chmod u+rwx {shown}")
    open_files = [path for path in _private(home) if path.stat().st_mode & OTHERS]
    if open_files:
        named = open_files[0]
        return problem(
            f"{named} can be read by other users of this machine: it has secrets or leads to them",
            f"chmod o-rwx {' '.join(shlex.quote(str(path)) for path in open_files)}",
        )
    if (home / SECRETS).exists() and examined.secrets is None:
        return problem(
            f"{home / SECRETS} is damaged; the database needs the password in it",
            f"cp <your copy of {SECRETS}> {shlex.quote(str(home / SECRETS))}",
        )
    return ok(f"{home} is there, for its owner alone")


def _private(home: Path) -> Iterable[Path]:
    names = (SECRETS, "encryption.keys", "state.json", "compose.env")
    return (path for path in (home, *(home / name for name in names)) if path.exists())


def check_disk(examined: Examined) -> list[Finding]:
    """Room on the disk of the home, and where temporary files go."""
    home = _nearest(examined.home)
    found = [_disk(home, "the state folder", _more_room(examined.home))]
    temporary = Path(tempfile.gettempdir())
    if temporary.stat().st_dev != home.stat().st_dev:
        found.append(_disk(temporary, "temporary files", "export TMPDIR=<a folder with room>"))
    return found


def _disk(folder: Path, what: str, fix: str) -> Finding:
    usage = shutil.disk_usage(folder)
    counted = os.statvfs(folder)
    free = f"{usage.free / GIB:.1f} GiB of {usage.total / GIB:.0f} free at {folder} ({what})"
    inodes = counted.f_favail if counted.f_files else FREE_INODES_LOW
    if usage.free < FREE_BYTES_MIN:
        return problem(f"the disk is full: {free}", fix)
    if inodes < FREE_INODES_MIN:
        return problem(f"no more files can be made: {inodes} left at {folder}", fix)
    if usage.free < FREE_BYTES_LOW or inodes < FREE_INODES_LOW:
        return warning(f"the disk is nearly full: {free}, {inodes} files", fix)
    return ok(free)


def _more_room(home: Path) -> str:
    """The command that removes what nobody needs of a home; else what to do."""
    removable = [path for pattern in REMOVABLE for path in home.glob(pattern)]
    rotated = (f"logs/*.log.{age}" for age in range(1, LOGS_KEPT + 1))
    removable += [path for pattern in rotated for path in home.glob(pattern)]
    if removable:
        return f"rm -rf {' '.join(shlex.quote(str(path)) for path in sorted(removable))}"
    return "export HEELER_HOME=<a folder on a larger disk>"


def check_port(examined: Examined) -> Finding:
    """Whether the API can listen where it should, or does already."""
    settings = examined.settings
    where = f"{settings.host}:{settings.port}"
    if examined.running and examined.running.ports.get("api") == settings.port:
        return ok(f"this server listens on {where}")
    if port_is_free(settings.host, settings.port):
        return ok(f"{where} is free")
    owner = listener_of(settings.port) or "another process"
    server = read_health(settings.reach_host, settings.port).server
    if server.startswith("heeler"):
        if Project(settings).env_file.exists() and not examined.running:
            return ok(f"a server in containers listens on {where}, or another one does")
        owner += ", another Heeler"
    return problem(
        f"{where} is taken by {owner}", f"export HEELER_PORT={_free_port(examined) or '<another>'}"
    )


def _free_port(examined: Examined) -> int | None:
    settings = examined.settings
    tried = range(settings.port + 1, min(settings.port + PORTS_TRIED_MAX, 65_536))
    return next((port for port in tried if port_is_free(settings.host, port)), None)


def check_owner_of_home(examined: Examined) -> Finding:
    """Whether the server that runs in this home is the one that is asked for here."""
    running = examined.running
    if running is None:
        return skip("no server runs in this home")
    differences = []
    if (port := running.ports.get("api")) != examined.settings.port:
        differences.append(f"port {port} (here {examined.settings.port})")
    if examined.secrets:
        now = fingerprints(examined.environment, examined.secrets.nats_password)
        changed = changed_variables(running.variables, now)
        differences += [name for name in changed if name != "HEELER_PORT"]
    if differences:
        return warning(
            f"the server of this home was started with other settings: {', '.join(differences)}",
            examined.restart,
        )
    return ok("the server of this home was started with the settings of here")


def _nearest(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return path
