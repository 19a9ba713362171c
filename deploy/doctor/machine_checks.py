"""The machine: Python and its packages, memory, limits, the clock, time zones."""

from __future__ import annotations

import os
import resource
import shlex
import sys
import tomllib
import zoneinfo
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata

import psutil

from deploy.doctor import clocks
from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, ok, problem, skip, warning
from deploy.embedded.postgres_server import memory_bytes
from deploy.embedded.settings import CHECKOUT

PYTHON_LEAST = (3, 12)
GIB = 1 << 30
MEMORY_BYTES_MIN, MEMORY_BYTES_LOW = 1 * GIB, 2 * GIB
AVAILABLE_BYTES_LOW = 256 << 20
OPEN_FILES_MIN = 4_096
SKEW_SECONDS_MAX = 2.0
PACKAGES_NAMED_MAX = 5
ZONE = "Europe/Berlin"  # any that has summer time
BOOTSTRAP = f"rm -f {CHECKOUT}/.venv/.heeler-lock && {CHECKOUT}/deploy/bootstrap.sh"


def check_python(_: Examined) -> Finding:
    """The interpreter, and whether the packages are those of the lock file."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < PYTHON_LEAST:
        least = ".".join(map(str, PYTHON_LEAST))
        return problem(f"Python {version} is too old: {least} is needed", BOOTSTRAP)
    lock = CHECKOUT / "uv.lock"
    if not lock.is_file():  # installed as a package: pip saw to that
        return ok(f"Python {version}")
    differing = list(_differing_packages(lock.read_text()))
    if not differing:
        return ok(f"Python {version}, packages as uv.lock names them")
    more = f" and {len(differing) - PACKAGES_NAMED_MAX} more"
    named = ", ".join(differing[:PACKAGES_NAMED_MAX])
    rest = more if len(differing) > PACKAGES_NAMED_MAX else ""
    return warning(f"packages differ from uv.lock: {named}{rest}", BOOTSTRAP)


def _differing_packages(lock: str) -> Iterator[str]:
    """Installed packages of another version than the lock file has."""
    for package in tomllib.loads(lock)["package"]:
        with suppress(metadata.PackageNotFoundError):
            installed = metadata.version(package["name"])
            locked = package.get("version") if "registry" in package["source"] else None
            if locked and installed != locked:
                yield f"{package['name']} is {installed}, not {locked}"


def check_memory(examined: Examined) -> Finding:
    """Memory of the machine, or of the container."""
    total, available = memory_bytes(), int(psutil.virtual_memory().available)
    text = f"{available / GIB:.1f} GiB of {total / GIB:.1f} available"
    fix = "export HEELER_PROCESSES=one HEELER_REPLICAS=1"
    small = total < MEMORY_BYTES_LOW and examined.settings.processes != "one"
    if total < MEMORY_BYTES_MIN and small:
        return problem(f"too little memory for a process for each service: {text}", fix)
    if small or available < AVAILABLE_BYTES_LOW:
        return warning(f"little memory: {text}", fix)
    return ok(text)


def check_limits(_: Examined) -> Finding:
    """The number of files that a process may have open: each client is one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < OPEN_FILES_MIN:
        return warning(
            f"a process may have {hard} files open, and each connection of a client is one",
            f"sudo prlimit --pid $$ --nofile={OPEN_FILES_MIN * 16}",
        )
    return ok(f"a process may have {'any number of' if hard < 0 else hard} files open")


def check_clock(examined: Examined) -> Finding:
    """The clock, compared with those of the servers and of the providers that can be reached."""
    found = clocks.others(examined)
    if not found:
        return skip("no other clock can be reached")
    name, skew = max(found.items(), key=lambda item: abs(item[1]))
    if abs(skew) > SKEW_SECONDS_MAX:
        direction = "ahead of" if skew > 0 else "behind"
        return problem(
            f"the clock is {abs(skew):.0f} s {direction} that of {name}",
            "sudo timedatectl set-ntp true",
        )
    return ok(f"as that of {', '.join(found)}, within {SKEW_SECONDS_MAX:g} s")


def check_timezones(examined: Examined) -> Finding:
    """Whether schedules can be in the time of a place, and whether TZ is a zone."""
    try:
        zoneinfo.ZoneInfo(ZONE)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        python = shlex.quote(sys.executable)
        return problem("the time zones are not installed", f"{python} -m pip install tzdata")
    named = examined.environment.get("TZ", "").removeprefix(":")
    if named and not _is_zone(named):
        return problem(f"TZ is {named!r}, which is no time zone", "unset TZ")
    return ok(f"{len(zoneinfo.available_timezones())} time zones, {named or 'TZ is not set'}")


def _is_zone(name: str) -> bool:
    """Whether it is a name in the database, a path, or a rule such as CET-1CEST."""
    if os.path.isabs(name):
        return os.path.exists(name)
    with suppress(zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        zoneinfo.ZoneInfo(name)
        return True
    return "/" not in name and any(character.isdigit() for character in name)
