"""Load the configuration anew, as a whole or not at all.

The file is read and checked first: what a service would refuse changes nothing. Then each process
whose environment is another by now is replaced, one after the other; where one of them does not get
healthy, all of them go back to what they had. Settings that are read once, when the server starts,
are named and keep their values.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from deploy.embedded.applied_configuration import (
    APPLIED,
    APPLYING,
    REFUSED,
    ROLLED_BACK,
    UNCHANGED,
    AppliedConfiguration,
    Reload,
)
from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance
from deploy.embedded.service_environment import fingerprints
from deploy.embedded.service_watch import services_of
from deploy.embedded.settings import CHECKOUT, LaunchError, Settings, launch_configuration
from deploy.embedded.subprocesses import Command, size_of, tail
from deploy.embedded.supervised_process import FIRST_ANSWER_WITHIN, Failed, Part
from libs.bus.configuration_file import Configuration
from libs.contracts.configuration.catalogue import CONFIG_VARIABLE, KEYS
from libs.contracts.configuration.key import Key
from libs.contracts.environment_parsing import WrongSetting

log = logging.getLogger("heeler.supervisor")

CHECKS_WITHIN = FIRST_ANSWER_WITHIN  # it loads what the services load
LOG_CHARS_MAX = 500
SANDBOX_KEYS = frozenset({"tools.sandbox", "tools.sandbox_image", "tools.sandbox_network"})
NO_FILE = os.devnull  # a configuration file that says nothing

type Environment = Mapping[str, str]


class NotUsable(Exception):
    """A configuration is refused; `problems` say why, a sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(slots=True)
class Reloader:
    """Applies a configuration to the parts that run. `command` says how a part is started with some
    settings, `wait_healthy` waits for one that was started anew, `write` notes how it goes."""

    settings: Settings
    applied: AppliedConfiguration
    variables: Mapping[str, str]  # the fingerprints of those that hold
    key: str  # of the fingerprints
    parts: Sequence[Part]
    command: Callable[[Settings, str], Command]
    wait_healthy: Callable[[Part], Awaitable[None]]
    write: Callable[[], None]
    check: Callable[[Configuration, bool], Awaitable[list[str]]]  # with a trial of the sandbox

    async def reload(self) -> None:
        """Load the configuration anew; `settings` and `variables` are those that hold after it."""
        attempt = self.applied.begin()
        self.write()
        try:
            configuration = await self._usable()
            await self._apply(configuration, attempt)
        except NotUsable as refusal:
            attempt.problems = refusal.problems
            self._end(attempt, REFUSED)
        except Failed as failure:
            attempt.problems = [str(failure)]
            self._end(attempt, ROLLED_BACK)
        except Exception as error:  # whoever asked waits for an end
            log.exception("the configuration could not be loaded")
            known = isinstance(error, LaunchError)
            unknown = f"{type(error).__name__}: see the log of the supervisor"
            attempt.problems = [str(error) if known else unknown]
            self._end(attempt, ROLLED_BACK if attempt.status == APPLYING else REFUSED)

    async def _usable(self) -> Configuration:
        """The configuration as it is by now. Raises NotUsable."""
        try:
            configuration = launch_configuration()
        except LaunchError as problem:
            raise NotUsable(str(problem).splitlines()) from problem
        await self._require_usable(configuration)
        kept, names = keep_what_needs_start(self.settings.environment, configuration.environment)
        if names:  # what is new must go with what stays as well, as a password with an address
            await self._require_usable(replace(configuration, environment=kept))
        return configuration

    async def _require_usable(self, configuration: Configuration) -> None:
        after = fingerprints(configuration.environment, self.key)
        tries = any(
            key.name in SANDBOX_KEYS and differs(key, self.variables, after) for key in KEYS
        )
        try:
            problems = await self.check(configuration, tries)
        except OSError as problem:
            raise NotUsable([f"the configuration cannot be checked: {problem}"]) from problem
        if problems:
            raise NotUsable([configuration.explain(WrongSetting(text)) for text in problems])

    async def _apply(self, configuration: Configuration, attempt: Reload) -> None:
        """Raise Failed where a part does not get healthy; all of them have what they had then."""
        before = self.settings.environment
        environment, attempt.needs_start = keep_what_needs_start(before, configuration.environment)
        variables = fingerprints(environment, self.key)
        changed = [key for key in KEYS if differs(key, self.variables, variables)]
        attempt.changed = [key.name for key in changed]
        attempt.warnings = list(configuration.warnings)
        settings = replace(self.settings, environment=environment)
        commands = [self.command(settings, part.command.name) for part in self.parts]
        affected = {
            part.command.name: command
            for part, command in zip(self.parts, commands, strict=True)
            if is_affected(part, changed)
        }
        attempt.status = APPLYING
        self.write()
        await self._replace_all(affected, attempt)
        for part, command in zip(self.parts, commands, strict=True):
            part.command = command  # for its next start, where it reads nothing that has changed
        self.settings, self.variables = settings, variables
        self.applied.hold(variables, configuration.file)
        self._end(attempt, APPLIED if changed else UNCHANGED)

    async def _replace_all(self, affected: Mapping[str, Command], attempt: Reload) -> None:
        begun: list[tuple[Part, Command]] = []
        for part in self.parts:
            name, old = part.command.name, part.command
            if name not in affected:
                continue
            begun.append((part, old))
            try:
                await self._replace(part, affected[name])
            except Exception as failure:  # whatever it was, half of it must not stay
                log.error("the configuration is rolled back: %s", failure)
                for other, before in reversed(begun):
                    await self._go_back(other, before, attempt)
                raise
            attempt.replaced.append(name)
            self.write()

    async def _replace(self, part: Part, command: Command) -> None:
        before = size_of(command.log)
        await part.replace(command)
        try:
            await self.wait_healthy(part)
        except Failed as failure:
            said = tail(command.log, 1, after=before)[:LOG_CHARS_MAX]
            raise Failed(failure.part, f"{failure}: {said}" if said else str(failure)) from failure

    async def _go_back(self, part: Part, command: Command, attempt: Reload) -> None:
        """One that does not get healthy with what it had before is kept running as ever."""
        try:
            await self._replace(part, command)
        except Exception as failure:  # the others go back nevertheless
            log.error("after the way back: %s", failure)
            attempt.warnings.append(f"after the way back: {failure}")

    def _end(self, attempt: Reload, status: str) -> None:
        attempt.status, attempt.version = status, self.applied.version
        for line in (*attempt.warnings, *attempt.problems):
            log.warning("configuration: %s", line)
        log.info(
            "configuration: %s, version %d; changed: %s; after the next start: %s",
            *(status, attempt.version),
            *(", ".join(names) or "nothing" for names in (attempt.changed, attempt.needs_start)),
        )
        self.write()


def is_affected(part: Part, changed: Sequence[Key]) -> bool:
    """Whether a process reads one of these keys."""
    services = services_of(part)
    return any(not key.services or {*key.services} & {*services} for key in changed)


def differs(key: Key, before: Environment, after: Environment) -> bool:
    """Whether a key has another value in one environment than in the other, or in what was made of
    both."""
    return any(before.get(name, "") != after.get(name, "") for name in key.variables)


def keep_what_needs_start(
    before: Environment, after: Environment
) -> tuple[dict[str, str], list[str]]:
    """The new environment with the old values of what is read once, when the server starts; and
    the names of these keys."""
    kept, names = dict(after), []
    for key in KEYS:
        if key.needs_start and differs(key, before, after):
            names.append(key.name)
            for name in key.variables:
                kept.pop(name, None)
                if name in before:
                    kept[name] = before[name]
    return kept, names


async def check_in_process(configuration: Configuration, tries: bool) -> list[str]:
    """The services' refusals, found in a process that has their code, and, if it `tries`, the
    reason why no call ends well in the sandbox."""
    environment = {**configuration.environment, CONFIG_VARIABLE: NO_FILE}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "deploy.embedded", "check", *(["--sandbox"] if tries else [])),
        cwd=CHECKOUT,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    said = asyncio.ensure_future(process.communicate())
    allowance = Allowance(CHECKS_WITHIN, has_children=True)
    while not (await asyncio.wait([said], timeout=LOOK_AGAIN_SECONDS))[0]:
        if allowance.is_spent(process.pid):
            process.kill()
            await said
            return [f"the configuration was not checked within {CHECKS_WITHIN}"]
    out, _ = said.result()
    if process.returncode == 0:
        return []
    return out.decode().splitlines() or ["the configuration could not be checked: see the log"]
