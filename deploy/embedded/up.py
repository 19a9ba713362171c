"""`up` and `down`: start a detached supervisor and wait for it; stop it and what it left."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path

from deploy.embedded.api_health import LAUNCH_PROBE_SECONDS_MAX, Health, read_health
from deploy.embedded.command_name import command_name, launch_words
from deploy.embedded.launch_progress import PARENTS, SUPERVISOR, LaunchProgress
from deploy.embedded.leftovers import kill_leftovers
from deploy.embedded.listener import require_free_port
from deploy.embedded.postgres_location import require_database
from deploy.embedded.process_activity import poll_seconds
from deploy.embedded.service_commands import HTTP_PARTS
from deploy.embedded.service_environment import changed_variables, fingerprints
from deploy.embedded.settings import (
    CHECKOUT,
    IS_CHECKOUT,
    STALLED_SECONDS_MAX,
    LaunchError,
    Settings,
    open_home,
    require_password,
    service_of,
)
from deploy.embedded.state import (
    HomeLock,
    InstanceState,
    ProcessMark,
    open_secrets,
    read_state,
    write_state,
)
from deploy.embedded.subprocesses import open_log, size_of, tail
from deploy.embedded.supervisor import main
from libs.contracts.configuration.catalogue import CONFIG_VARIABLE

ORPHANS_SECONDS_MAX = 5.0  # children of a killed supervisor that do nothing for so long stay
RECOVER_SECONDS_MAX = 15.0  # `up` complains of a running instance where nothing moves for so long
RESTARTS_MAX = 4  # of a part, after which another start is no progress


def up(settings: Settings) -> int:
    from deploy.embedded.service_settings import (
        print_unused,
        require_service_settings,
    )  # slow to import

    started = time.monotonic()
    require_password(settings)
    require_service_settings()
    print_unused()
    open_home(settings)
    if HomeLock(settings.home).holder():
        return _join_running(settings)
    require_database(settings.home)
    _await_orphans(settings)
    require_free_port(settings)
    logs = LogsOfThisStart(settings)
    supervisor = _spawn_supervisor(settings)
    state = _wait_healthy(settings, supervisor, STALLED_SECONDS_MAX, logs)
    print(f"Heeler is up ({time.monotonic() - started:.1f} s).")
    _print_urls(settings, state)
    return 0


def run(settings: Settings) -> int:
    """Stay in the foreground until SIGTERM or SIGINT; returns the exit code. Refuses what `up`
    refuses."""
    from deploy.embedded.service_settings import print_unused, require_service_settings

    require_password(settings)
    require_service_settings()
    print_unused()
    open_home(settings)
    if HomeLock(settings.home).holder() is None:
        require_database(settings.home)
        _await_orphans(settings)
        require_free_port(settings)
    return main(settings)


def down(settings: Settings) -> int:
    """Stop the instance of this home; says so, and succeeds, when there is none."""
    if not settings.home.exists():
        print("Heeler is not running.")
        return 0
    supervisor = HomeLock(settings.home).holder()
    if supervisor:
        _stop_supervisor(settings, supervisor)
    state = read_state(settings.home)
    leftovers = _alive(state)
    kill_leftovers(state)
    if state and (leftovers or state.phase not in ("stopped", "failed")):
        state.phase, state.supervisor = "stopped", None
        for part in state.parts.values():
            part.state, part.mark = "stopped", None
        write_state(settings.home, state)
    print("Heeler is stopped." if supervisor or leftovers else "Heeler is not running.")
    return 0


def _join_running(settings: Settings) -> int:
    """Another supervisor holds this home: wait for it to be healthy, or say what ails it."""
    state = read_state(settings.home)
    starting = state is None or state.phase != "running"
    stalled_seconds_max = STALLED_SECONDS_MAX if starting else RECOVER_SECONDS_MAX
    state = _wait_healthy(settings, None, stalled_seconds_max, None)
    print(f"Heeler is already up: {state.urls['api']}")
    _print_urls(settings, state)
    now = fingerprints(settings.environment, open_secrets(settings.home).nats_password)
    if names := changed_variables(state.variables, now):
        again = "make down up" if IS_CHECKOUT else f"{command_name()} down && {command_name()} up"
        print(
            f"It runs with other values of {', '.join(names)} than are set here. To run with those:"
            f" {home_prefix(settings)}{again}; those of the file: heeler config reload"
        )
    return 0


def _await_orphans(settings: Settings) -> None:
    """Children die with their supervisor; wait for that, and say which one does not."""
    progress = LaunchProgress()
    while orphans := _alive(read_state(settings.home)):
        progress.note(orphans)
        progress.tell()
        if progress.stalled_seconds > ORPHANS_SECONDS_MAX:
            named = ", ".join(f"{name} (pid {pid})" for name, pid in orphans.items())
            raise LaunchError(
                f"The supervisor of {settings.home} is gone but {named} still runs. "
                f"Clean up with `{launch_words('down')}`, then try again."
            )
        time.sleep(poll_seconds(progress.waited_seconds))


def _alive(state: InstanceState | None) -> dict[str, int | None]:
    """The parts that have a process, with its pid."""
    parts = state.parts if state else {}
    return {
        part.name: part.mark.pid for part in parts.values() if part.mark and part.mark.process()
    }


def _spawn_supervisor(settings: Settings) -> subprocess.Popen[bytes]:
    print(f"Starting Heeler in {settings.home}", flush=True)
    with open_log(settings.log("supervisor")) as log:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy.embedded", "run"],
            cwd=CHECKOUT,
            env={**os.environ, **absolute_paths(settings), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def absolute_paths(settings: Settings) -> dict[str, str]:
    """The variables that name the home and the configuration file, for every working folder."""
    file = os.environ.get(CONFIG_VARIABLE)
    config = {CONFIG_VARIABLE: str(Path(file).expanduser().absolute())} if file else {}
    return {"HEELER_HOME": str(settings.home), **config}


def _wait_healthy(
    settings: Settings,
    supervisor: subprocess.Popen[bytes] | None,
    stalled_seconds_max: float,
    logs: LogsOfThisStart | None,
) -> InstanceState:
    """Tell how the start goes until all is healthy; raises when it fails, or there was no
    progress for so long."""
    progress, shown, restarts = LaunchProgress(), set[str](), dict[str, int]()
    while True:
        state = _current(settings, supervisor)
        awaited = _awaited(settings, state, supervisor)
        if state and supervisor:
            _tell_progress(state, shown, progress.waited_seconds)
        if state and state.phase == "running" and not awaited:
            return state
        in_vain = _restarted_in_vain(state, restarts)
        progress.note(awaited, _facts(settings, state, in_vain), in_vain)
        progress.tell(_said_of_migrations(settings, state))
        if supervisor is None or supervisor.poll() is not None:
            if HomeLock(settings.home).holder() is None:
                raise _start_failed(settings, state, logs)
            supervisor = None  # another `up` at the same moment was faster
        if progress.stalled_seconds > stalled_seconds_max:
            raise _not_healthy(settings, state, progress, logs)
        time.sleep(poll_seconds(progress.waited_seconds))


def _awaited(
    settings: Settings, state: InstanceState | None, supervisor: subprocess.Popen[bytes] | None
) -> dict[str, int | None]:
    """The processes that something waits for: while Heeler starts the supervisor and what runs, and
    then each part that is not well."""
    alive, names = _alive(state), [*state.parts] if state else []
    holder = supervisor or HomeLock(settings.home).holder()
    starting: dict[str, int | None] = {"supervisor": holder.pid if holder else None}
    if state is None or state.phase != "running":
        return starting | alive
    if missing := [name for name in names if name not in alive]:
        is_first = any(state.parts[name].state == "waiting" for name in missing)
        return (starting if is_first else {}) | dict.fromkeys(missing)
    health = read_health(settings.reach_host, state.ports["api"], LAUNCH_PROBE_SECONDS_MAX)
    ailing = {name: alive[name] for name in names if not _is_ok(service_of(name), health)}
    # The api calls itself unwell for the sake of any other.
    others = {name: pid for name, pid in ailing.items() if service_of(name) not in HTTP_PARTS}
    return others or ailing


def _is_ok(service: str, health: Health) -> bool:
    return health.all_ok if service in HTTP_PARTS else service not in health.failing


def _restarted_in_vain(state: InstanceState | None, before: dict[str, int]) -> set[str]:
    """The parts that were started anew so often since the first look that it is no progress."""
    parts = state.parts if state else {}
    return {
        name
        for name, part in parts.items()
        if part.restarts - before.setdefault(name, part.restarts) > RESTARTS_MAX
    }


def _facts(
    settings: Settings, state: InstanceState | None, in_vain: set[str]
) -> Iterator[Hashable]:
    """The facts that are progress when they are seen for the first time."""
    if state is not None:
        yield state.phase
        yield "migrate", size_of(settings.log("migrate"))
        yield from ((name, part.mark) for name, part in state.parts.items() if name not in in_vain)


def _current(
    settings: Settings, supervisor: subprocess.Popen[bytes] | None
) -> InstanceState | None:
    """The state as our supervisor wrote it, or the one that holds the home; not what an earlier one
    left, or somebody else. The one that runs writes it again within a moment."""
    state = read_state(settings.home)
    if state is None or "api" not in state.ports or "api" not in state.urls:
        return None
    failed = supervisor is not None and supervisor.poll() is not None and state.phase == "failed"
    holder = supervisor or HomeLock(settings.home).holder()
    ours = state.supervisor is not None and holder and state.supervisor.pid == holder.pid
    return state if ours or failed else None


def _said_of_migrations(settings: Settings, state: InstanceState | None) -> str:
    """The last that the migrations have said, while they run."""
    said = tail(settings.log("migrate"), 1) if state and state.phase == "migrating" else ""
    return f"; migrating: {said}" if said else ""


def _tell_progress(state: InstanceState, shown: set[str], seconds: float) -> None:
    lines = [
        f"{part.name} started, pid {part.mark.pid}" for part in state.parts.values() if part.mark
    ]
    lines += ["migrating"] if state.phase == "migrating" else []
    lines += state.notices
    for line in lines:
        if line not in shown:
            shown.add(line)
            print(f"  {seconds:4.1f} s  {line}", flush=True)


def _start_failed(
    settings: Settings, state: InstanceState | None, logs: LogsOfThisStart | None
) -> LaunchError:
    part = (state.problem_part if state else None) or "supervisor"
    problem = (state.problem if state else None) or "the supervisor ended."
    return LaunchError(f"Heeler did not start: {problem}{_log_of(settings, part, logs)}")


def _not_healthy(
    settings: Settings,
    state: InstanceState | None,
    progress: LaunchProgress,
    logs: LogsOfThisStart | None,
) -> LaunchError:
    part, reason = _ailing(settings, state)
    return LaunchError(
        f"Heeler is not healthy, and there was no progress for {progress.stalled_seconds:.0f} s: "
        f"{part} {reason}. Stop it with `{launch_words('down')}`, then start again."
        f"{_log_of(settings, part, logs)}"
    )


def _ailing(settings: Settings, state: InstanceState | None) -> tuple[str, str]:
    if state is None:
        return "supervisor", "wrote no state"
    for part in state.parts.values():
        if not part.mark or not part.mark.process():
            return (
                part.name,
                f"is {part.state}, {part.restarts} restarts, last exit {part.last_exit}",
            )
    health = read_health(settings.reach_host, state.ports["api"])
    if health.failing:
        name = next((name for name in health.failing if name != "api"), "api")
        return name, f"reports {health.parts[name]!r}"
    return "api", "does not answer /v1/health"


class LogsOfThisStart:
    """Where the logs ended before a start: what stands before that is of the start before."""

    def __init__(self, settings: Settings) -> None:
        names = (*settings.parts, "supervisor", "migrate")
        self._ends = {name: size_of(settings.log(name)) for name in names}

    def began_at(self, path: Path) -> int:
        """The bytes of a log that are older; none where it was moved aside since."""
        end = self._ends.get(path.stem, 0)
        return end if size_of(path) >= end else 0


def _log_of(settings: Settings, part: str, logs: LogsOfThisStart | None) -> str:
    path = settings.log(part)
    text = tail(path, after=logs.began_at(path) if logs else 0)
    return f"\n--- the end of {path}\n{text}" if text else f"\nSee {settings.logs}."


def _print_urls(settings: Settings, state: InstanceState) -> None:
    home = home_prefix(settings)
    command = f"{home}{command_name()}"
    launcher = f"{home}make" if IS_CHECKOUT else command
    rows = {
        "API": state.urls["api"],
        "OpenAPI": f"{state.urls['api']}/openapi",
        "health": f"{state.urls['api']}/v1/health",
        "NATS": f"{launcher} watch",
        "SQL": f"{launcher} psql",
        "logins": f"{launcher} status {'ARGS=--json' if IS_CHECKOUT else '--json'}",
        "logs": str(settings.logs),
        "stop": f"{launcher} down",
        "command": f"{command} --help",
    }
    print_rows(rows)


def home_prefix(settings: Settings, environment: Mapping[str, str] = os.environ) -> str:
    """The words before a command that is for this home."""
    words = shlex.quote(str(settings.home))
    return f"HEELER_HOME={words} " if environment.get("HEELER_HOME") else ""


def print_rows(rows: dict[str, str]) -> None:
    for name, value in rows.items():
        print(f"  {name:<8} {value}")
    sys.stdout.flush()


def _stop_supervisor(settings: Settings, supervisor: ProcessMark) -> None:
    """End it as long as something of it moves; what does not is killed, and its children with it.
    Its parts serve clients until it has told them to end, and for as long as it stands still: what
    they do then is no progress. Raises LaunchError."""
    state = read_state(settings.home)
    parents = ("postgres",) if state and state.phase == "running" else PARENTS
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(supervisor.pid, number)
        progress = LaunchProgress(parents)
        while progress.stalled_seconds < STALLED_SECONDS_MAX:
            if supervisor.wait_gone(poll_seconds(progress.waited_seconds)):
                return
            state = read_state(settings.home)
            alive = _alive(state)
            is_asked = state is not None and state.phase != "running"
            in_vain = alive if not is_asked or progress.is_frozen(SUPERVISOR) else ()
            progress.note({**alive, SUPERVISOR: supervisor.pid}, [frozenset(alive)], in_vain)
            progress.tell()
    raise LaunchError(f"The supervisor (pid {supervisor.pid}) cannot be ended.")
