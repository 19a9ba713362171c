"""Start Postgres, NATS and the services in order, restart what dies, stop in reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable

from deploy.embedded import postgres
from deploy.embedded.nats import Nats, nats_url
from deploy.embedded.process import Command, signal_group, spawn_options
from deploy.embedded.settings import (
    CHECKOUT,
    DATABASE,
    MIGRATE_SECONDS_MAX,
    PART_READY_SECONDS_MAX,
    PARTS,
    SERVICES,
    LaunchError,
    Settings,
    open_home,
)
from deploy.embedded.state import (
    HomeLock,
    InstanceState,
    PartState,
    ProcessMark,
    Secrets,
    choose_ports,
    open_secrets,
    read_state,
    write_state,
)

log = logging.getLogger("heeler.supervisor")

BACKOFF_SECONDS_FIRST = 0.1
BACKOFF_SECONDS_MAX = 5.0
ALIVE_SECONDS_RESET = 10.0  # who lived this long starts again without a wait
READY_POLL_SECONDS = 0.01
RESTARTS_BEFORE_READY_MAX = 4
LEFTOVER_SECONDS_MAX = 10.0
CANNOT_START = 127


class Failed(Exception):
    """A part that never came up; the message is for the person at the keyboard."""

    def __init__(self, part: str, message: str) -> None:
        super().__init__(message)
        self.part = part


class Backoff:
    """None the first time, then 0.1 s doubling to 5 s, until a process lives for 10 s."""

    def __init__(self) -> None:
        self._next_seconds = 0.0

    def after(self, alive_seconds: float) -> float:
        if alive_seconds >= ALIVE_SECONDS_RESET:
            self._next_seconds = 0.0
        wait = self._next_seconds
        self._next_seconds = min(max(wait * 2, BACKOFF_SECONDS_FIRST), BACKOFF_SECONDS_MAX)
        return wait


class Part:
    """One child process that is kept running until it is stopped."""

    def __init__(
        self,
        command: Command,
        state: PartState,
        changed: Callable[[], None],
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.command = command
        self.state = state
        self._changed = changed
        self._prepare = prepare
        self._backoff = Backoff()
        self._stopping = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep(), name=self.command.name)

    async def wait_ready(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PART_READY_SECONDS_MAX
        while not await asyncio.to_thread(ready):
            if self._keeper and self._keeper.done():
                self._keeper.result()
            given_up = self.state.restarts > RESTARTS_BEFORE_READY_MAX
            if given_up or time.monotonic() > deadline:
                raise Failed(self.command.name, f"{self.command.name} did not get ready.")
            await asyncio.sleep(READY_POLL_SECONDS)

    async def stop(self) -> None:
        self._stopping.set()
        if self._process and self._process.returncode is None:
            signal_group(self._process.pid, self.command.stop_signal)
        if self._keeper:
            _, pending = await asyncio.wait([self._keeper], timeout=self.command.stop_seconds_max)
            if pending and self._process:
                log.warning("%s ignored the stop signal: killed", self.command.name)
                signal_group(self._process.pid, signal.SIGKILL)
                await asyncio.wait([self._keeper])
        self._note("stopped", mark=None)

    async def _keep(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            code = await self._run_once()
            if self._stopping.is_set():
                return
            wait_seconds = self._backoff.after(time.monotonic() - started)
            log.warning(
                "%s exited with %s: restart in %.1f s", self.command.name, code, wait_seconds
            )
            self.state.restarts += 1
            self._note("restarting", mark=None, last_exit=code)
            if wait_seconds:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), wait_seconds)

    async def _run_once(self) -> int:
        if self._prepare:
            self._prepare()
        try:
            with spawn_options(self.command) as options:
                process = await asyncio.create_subprocess_exec(*self.command.argv, **options)
        except OSError as error:
            log.error("%s cannot be started: %s", self.command.name, error)
            return CANNOT_START
        self._process = process
        self.state.started_at = time.time()
        self._note("running", mark=ProcessMark.of(process.pid))
        log.info("%s started, pid %s", self.command.name, process.pid)
        if self._stopping.is_set():  # the stop came while the process was being made
            signal_group(process.pid, self.command.stop_signal)
        code = await process.wait()
        signal_group(process.pid, signal.SIGKILL)  # what it left behind
        return code

    def _note(self, state: str, *, mark: ProcessMark | None, last_exit: int | None = None) -> None:
        self.state.state, self.state.mark = state, mark
        if last_exit is not None:
            self.state.last_exit = last_exit
        self._changed()


class Supervisor:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._secrets: Secrets = open_secrets(settings.home)
        ports = choose_ports(settings.home)
        home = settings.home
        self._postgres = postgres.place(
            home,
            log_file=settings.log("postgres"),
            port=ports["postgres"],
            password=self._secrets.postgres_password,
        )
        self._nats = Nats(
            folder=home / "nats",
            log=settings.log("nats"),
            port=ports["nats"],
            monitor_port=ports["nats_monitor"],
            password=self._secrets.nats_password,
        )
        self._state = InstanceState(
            phase="starting",
            supervisor=ProcessMark.of(os.getpid()),
            ports={"api": settings.port, **ports},
            urls={
                "api": settings.api_url,
                "openapi": f"{settings.api_url}/openapi",
                "health": f"{settings.api_url}/v1/health",
                "nats": self._nats.url,
                "nats_monitor": self._nats.monitor_url,
                "database": self._postgres.url(DATABASE),
            },
            parts={name: PartState(name) for name in PARTS},
        )
        self._parts: dict[str, Part] = {}

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until the start failed; the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        self._write()
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        failure = await _outcome(starting)
        if failure is None:
            await stopping
            await self._stop("stopped")
            return 0
        self._state.problem = str(failure)
        self._state.problem_part = failure.part if isinstance(failure, Failed) else "supervisor"
        log.error("start failed: %s", failure)
        await self._stop("failed")
        return 1

    async def _start(self) -> None:
        await asyncio.to_thread(self._postgres.prepare)
        self._nats.prepare()
        store = self._add(self._postgres.command(), self._postgres.clear_stale_pid)
        bus = self._add(self._nats.command())
        await asyncio.gather(
            store.wait_ready(self._postgres.ready), bus.wait_ready(self._nats.ready)
        )
        await asyncio.to_thread(self._postgres.create_database, DATABASE)
        self._phase("migrating")
        await self._migrate()
        for name in SERVICES:
            ports = self._state.ports
            self._add(service_command(self._settings, self._secrets, ports, name))
        self._phase("running")

    async def _migrate(self) -> None:
        module = self._settings.migrations_module
        if not _module_exists(module):
            log.info("no module %s: no migrations", module)
            return
        command = python_command(
            self._settings,
            "migrate",
            module,
            HEELER_NATS_URL=self._nats.url,
            HEELER_ADMIN_DATABASE_URL=self._postgres.url(DATABASE),
            HEELER_SERVICE_PASSWORDS=json.dumps(self._secrets.service_passwords),
        )
        with spawn_options(command) as options:
            process = await asyncio.create_subprocess_exec(*command.argv, **options)
        try:
            code = await asyncio.wait_for(process.wait(), MIGRATE_SECONDS_MAX)
        except (TimeoutError, asyncio.CancelledError):
            signal_group(process.pid, signal.SIGKILL)
            await process.wait()
            raise
        if code != 0:
            raise Failed("migrate", f"the migrations ended with exit code {code}.")

    def _add(self, command: Command, prepare: Callable[[], None] | None = None) -> Part:
        part = Part(command, self._state.parts[command.name], self._write, prepare)
        self._parts[command.name] = part
        part.start()
        return part

    async def _stop(self, phase: str) -> None:
        self._phase("stopping")
        services = [part for name, part in self._parts.items() if name in SERVICES]
        await asyncio.gather(*(part.stop() for part in services))
        for name in ("nats", "postgres"):
            if name in self._parts:
                await self._parts[name].stop()
        self._state.supervisor = None
        self._phase(phase)

    def _phase(self, phase: str) -> None:
        self._state.phase = phase
        log.info("%s", phase)
        self._write()

    def _write(self) -> None:
        write_state(self._settings.home, self._state)


async def _outcome(starting: asyncio.Task[None]) -> Exception | None:
    """None when the start went well or was called off, else what went wrong."""
    if not starting.done():
        starting.cancel()
    try:
        await starting
    except asyncio.CancelledError:
        return None
    except Exception as error:  # the process edge: noted in state.json, shown by `up`
        if not isinstance(error, Failed | LaunchError):
            log.exception("start failed")
        return error
    return None


def _module_exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def service_command(
    settings: Settings, secrets: Secrets, ports: dict[str, int], name: str
) -> Command:
    """How a service of this home is started; replicas are started the same way."""
    database_url = postgres.database_url(
        port=ports["postgres"],
        database=DATABASE,
        user=f"heeler_{name}",
        password=secrets.service_passwords[name],
    )
    environment = {
        "HEELER_DATABASE_URL": database_url,
        "HEELER_NATS_URL": nats_url(port=ports["nats"], password=secrets.nats_password),
    }
    if name == "api":
        environment |= {"HEELER_HOST": settings.host, "HEELER_PORT": str(settings.port)}
    return python_command(settings, name, f"{settings.services_package}.{name}", **environment)


def python_command(settings: Settings, name: str, module: str, **environment: str) -> Command:
    inherited = {"HEELER_LOG_LEVEL": "info", **os.environ}
    ours = {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
    return Command(
        name=name,
        argv=[sys.executable, "-m", module],
        environment=inherited | ours | environment,
        folder=CHECKOUT,
        log=settings.log(name),
    )


def kill_leftovers(state: InstanceState | None, seconds_max: float = LEFTOVER_SECONDS_MAX) -> None:
    """End the children that a dead supervisor recorded, services first; only if still the same."""
    if state is None:
        return
    for name in reversed(PARTS):
        part = state.parts.get(name)
        if part is None or part.mark is None or part.mark.process() is None:
            continue
        pid = part.mark.pid
        log.warning("ending %s (pid %s), left by an earlier supervisor", name, pid)
        signal_group(pid, signal.SIGINT if name == "postgres" else signal.SIGTERM)
        if not part.mark.wait_gone(seconds_max):
            signal_group(pid, signal.SIGKILL)
            part.mark.wait_gone(seconds_max)


def main(settings: Settings) -> int:
    """Supervise in the foreground; refuses when this home already has a supervisor."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s"
    )
    open_home(settings)
    lock = HomeLock(settings.home)
    if not lock.take():
        raise LaunchError(f"{settings.home} is already up: {settings.api_url}")
    kill_leftovers(read_state(settings.home))
    return asyncio.run(Supervisor(settings).run())
