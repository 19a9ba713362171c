"""`status`: one row per part, and whether all is well."""

from __future__ import annotations

import json
import re
import time
from dataclasses import asdict, dataclass

import psutil

from deploy.embedded.api_health import Health, read_health
from deploy.embedded.settings import ALL_SERVICES, SERVICES, Settings, service_of
from deploy.embedded.state import HomeLock, PartState, ProcessMark, read_state
from deploy.plain_tables import GREEN, RED, print_table


@dataclass(frozen=True)
class Row:
    name: str
    state: str  # ok, or what is wrong
    pid: int | None
    restarts: int
    uptime_seconds: float | None
    memory_bytes: int | None
    url: str | None


def status(settings: Settings, *, as_json: bool) -> int:
    """0 when the supervisor and every part is healthy, else 1."""
    holder = HomeLock(settings.home).holder()
    state = read_state(settings.home)
    host, port = (
        settings.reach_host,
        state.ports.get("api", settings.port) if state else settings.port,
    )
    health = read_health(host, port) if holder else Health()
    rows = [_supervisor_row(holder)]
    parts = state.parts.values() if state else map(PartState, settings.parts)
    rows += [_row(part, health, state.urls if state and holder else {}) for part in parts]
    healthy = health.all_ok and all(row.state == "ok" for row in rows)
    if as_json:
        document = {
            "home": str(settings.home),
            "healthy": healthy,
            "dead_letters": health.dead_letters,
            "phase": state.phase if state and holder else "stopped",
            "problem": state.problem if state else None,
            "urls": state.urls if state and holder else {},
            "parts": {row.name: asdict(row) for row in rows},
        }
        print(json.dumps(document, indent=2))
    else:
        _print_table(settings, rows, healthy)
        if health.dead_letters:
            print(f"Dead letters: {health.dead_letters} (see docs/operations.md).")
    return 0 if healthy else 1


def _supervisor_row(holder: ProcessMark | None) -> Row:
    process = holder.process() if holder else None
    uptime = time.time() - holder.created if holder and process else None
    state = "ok" if process else "down"
    pid = process.pid if process else None
    return Row("supervisor", state, pid, 0, uptime, _memory(process), None)


def _row(part: PartState, health: Health, urls: dict[str, str]) -> Row:
    process = part.mark.process() if part.mark else None
    if process is None:
        state = part.state if part.state == "restarting" else "down"
        return Row(part.name, state, None, part.restarts, None, None, None)
    state = _answered(service_of(part.name), health)
    uptime = time.time() - part.started_at if part.started_at else None
    url = urls.get({"postgres": "database"}.get(part.name, part.name))
    return Row(part.name, state, process.pid, part.restarts, uptime, _memory(process), url)


def _answered(service: str, health: Health) -> str:
    """The api's report on a part; of all services in one process, the ones that are not well."""
    if service != ALL_SERVICES:
        return health.parts.get(service, "not answering")
    answers = {name: health.parts.get(name, "not answering") for name in SERVICES}
    ailing = [f"{name} {answer}" for name, answer in answers.items() if answer != "ok"]
    return ", ".join(ailing) or "ok"


def _memory(process: psutil.Process | None) -> int | None:
    """The bytes of a process, of Postgres those of its children too: what it has alone, and its
    share of what it has in common with others, as far as the system tells."""
    if process is None:
        return None
    try:
        children = process.children() if process.name() == "postgres" else []
        return sum(map(_own_bytes, (process, *children)))
    except psutil.Error:
        return None


def _own_bytes(process: psutil.Process) -> int:
    memory = process.memory_full_info()
    return int(getattr(memory, "pss", memory.uss))


def _print_table(settings: Settings, rows: list[Row], healthy: bool) -> None:
    print(f"Heeler in {settings.home}")
    headings = ("part", "state", "pid", "restarts", "uptime", "memory")
    cells = [
        (
            row.name,
            row.state,
            str(row.pid or "-"),
            str(row.restarts),
            _duration(row.uptime_seconds),
            f"{row.memory_bytes / 2**20:.0f} MB" if row.memory_bytes else "-",
        )
        for row in rows
    ]
    colours = [GREEN if row.state == "ok" else RED for row in rows]
    print_table(headings, cells, right=headings[2:], colours=colours)
    for row in rows:
        if row.url:  # in no column: where a terminal is narrow it would be broken
            print(f"  {row.name:<8} {_without_login(row.url)}")
    if not healthy:
        print(f"Not healthy. Logs: {settings.logs}")


def _without_login(url: str | None) -> str:
    """A table ends up in screenshots: the passwords are only in `status --json`."""
    return re.sub(r"//[^@/]*@", "//", url or "")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s" if whole >= 60 else f"{whole}s"
    return f"{whole // 3600}h {whole % 3600 // 60}m"
