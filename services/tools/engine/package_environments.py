"""The packages of tools: installed once for each set of them, while other calls go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from libs.bus.ports import Clock
from services.tools.adapters.package_folders import NoRoom, PackageFolders
from services.tools.adapters.package_installer import InstallFailed, PipInstaller
from services.tools.domain.package_requirements import (
    PackageRules,
    Requirement,
    environment_key,
    specifiers,
)

log = logging.getLogger(__name__)

INSTALLING_MAX = 2  # at once; others wait for their turn
WAITING_MAX, WAITING_OF_ORG_MAX = 16, 4
FAILED_SECONDS, PASSING_SECONDS = 600.0, 30.0
FAILURES_MAX = 1_000
NOT_HERE = "This server has no folder for packages: set HEELER_PACKAGES_FOLDER, or import none"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The packages of a tool: its own, and those of all tools of its organisation."""

    org: str
    of_tool: Sequence[Requirement]
    of_all: Sequence[Requirement] = ()
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Installed:
    """Where packages are, and how long it was waited for them."""

    folder: str
    seconds: float


class NoPackages:
    """Stands for `PackageEnvironments` where nothing is installed; `why` says why not."""

    def __init__(self, why: str = NOT_HERE) -> None:
        self.why = why

    def refusal_of(self, requirements: Sequence[Requirement]) -> str:
        """Why packages cannot be installed; empty if none are wanted."""
        return self.why if requirements else ""

    async def provide(self, wanted: Wanted, seconds_max: float) -> Installed | str:
        """Why no packages are installed here."""
        return self.why


class PackageEnvironments:
    """Has packages installed, with one folder for each set of them."""

    def __init__(
        self, folders: PackageFolders, installer: PipInstaller, rules: PackageRules, clock: Clock
    ) -> None:
        self.folders = folders
        self.installer = installer
        self.rules = rules
        self.clock = clock
        self.turns = asyncio.Semaphore(INSTALLING_MAX)
        self.tasks: dict[str, asyncio.Task[str]] = {}
        self.orgs: dict[str, str] = {}
        self.failures: dict[str, tuple[float, str]] = {}

    def refusal_of(self, requirements: Sequence[Requirement]) -> str:
        if requirements and not self.folders.root:
            return NOT_HERE
        return self.rules.refusal(requirements)

    async def provide(self, wanted: Wanted, seconds_max: float) -> Installed | str:
        """Where the packages are; they are installed if they are not there, which goes on for the
        next call where this one cannot wait so long."""
        refused = self.refusal_of([*wanted.of_all, *wanted.of_tool])
        if refused:
            return refused
        packages = specifiers(wanted.of_all, wanted.of_tool)
        key = environment_key(packages, wanted.org, wanted.generation)
        began = self.clock.monotonic()
        task = self.tasks.get(key)
        if task is None:
            there = await self.folders.ready(key)
            if there is not None:
                return Installed(there, 0.0)
            why = self.failure(key) or self.no_turn(wanted.org)
            if why:
                return why
            task = self.tasks.get(key) or self.begin(key, packages, wanted.org)
        done, _ = await asyncio.wait([task], timeout=seconds_max)
        if not done:
            return (
                f"The packages of this tool ({', '.join(packages[:5])}) are still being installed:"
                " call it again in a minute"
            )
        why = task.result()
        return why or Installed(self.folders.path(key), self.clock.monotonic() - began)

    def failure(self, key: str) -> str:
        """Why these packages could not be installed a moment ago; empty if that is long ago."""
        until, why = self.failures.get(key, (0.0, ""))
        return why if self.clock.monotonic() < until else ""

    def no_turn(self, org: str) -> str:
        """Why no further installation can begin; empty if one can."""
        own = sum(waiting_org == org for waiting_org in self.orgs.values())
        if own >= WAITING_OF_ORG_MAX or len(self.tasks) >= WAITING_MAX:
            return "Too many packages are being installed: call the tool again in a minute"
        return ""

    def begin(self, key: str, packages: Sequence[str], org: str) -> asyncio.Task[str]:
        """Install packages; all who want the same wait for the same."""
        task = asyncio.create_task(self.install(key, packages))
        self.tasks[key], self.orgs[key] = task, org
        task.add_done_callback(lambda _: self.forget(key))
        return task

    def forget(self, key: str) -> None:
        """Forget an installation that has ended."""
        self.tasks.pop(key, None)
        self.orgs.pop(key, None)

    async def install(self, key: str, packages: Sequence[str]) -> str:
        """Install packages; returns why that failed, empty if it did not. A process edge: a bug is
        logged here, once."""
        new = self.folders.new()
        try:
            async with self.turns:
                await self.installer.install(packages, new)
                why = self.rules.denial(await asyncio.to_thread(names_in, new))
                if why:
                    return self.remember(key, why, FAILED_SECONDS)
                await self.folders.keep(new, key)
                return ""
        except InstallFailed as failed:
            seconds = PASSING_SECONDS if failed.passes else FAILED_SECONDS
            return self.remember(key, failed.words, seconds)
        except NoRoom:
            full = "There is no room for more packages on this server: call again in 15 minutes"
            return self.remember(key, full, PASSING_SECONDS)
        except Exception:
            log.exception("packages could not be installed: %s", packages)
            return self.remember(key, "The packages could not be installed", PASSING_SECONDS)
        finally:
            await asyncio.shield(self.folders.discard(new))

    def remember(self, key: str, why: str, seconds: float) -> str:
        """Do not try again for so long."""
        if len(self.failures) >= FAILURES_MAX:
            del self.failures[next(iter(self.failures))]
        self.failures[key] = (self.clock.monotonic() + seconds, why)
        return why

    async def drain(self) -> None:
        """Cancel all installations and wait for them."""
        for task in list(self.tasks.values()):
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


type ToolPackages = PackageEnvironments | NoPackages


def names_in(folder: str) -> list[str]:
    """The names of all packages that are installed in a folder."""
    return [path.name.partition("-")[0] for path in Path(folder).glob("*.dist-info")]
