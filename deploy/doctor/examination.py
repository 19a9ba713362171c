"""All checks, made at the same time, each within a few seconds."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from deploy.doctor.examined import Examined
from deploy.doctor.findings import Finding, State, problem
from deploy.doctor.home_checks import check_disk, check_home, check_owner_of_home, check_port
from deploy.doctor.machine_checks import (
    check_clock,
    check_limits,
    check_memory,
    check_python,
    check_timezones,
)
from deploy.doctor.nats_checks import check_nats
from deploy.doctor.postgres_checks import check_migrations, check_postgres
from deploy.doctor.provider_checks import check_providers, check_tools
from deploy.doctor.server_checks import check_backlog, check_health, check_processes
from deploy.doctor.settings_checks import (
    check_encryption_keys,
    check_password,
    check_settings,
    check_variables,
)
from deploy.doctor.stored_secrets import check_stored_secrets
from deploy.doctor.trial_checks import check_embedding, check_sandbox

log = logging.getLogger("heeler.doctor")

CHECK_SECONDS_MAX = 30.0  # every check has deadlines of its own below that

type Check = Callable[[Examined], Finding | Sequence[Finding]]

# In the order in which they are shown: what others need comes first.
CHECKS: dict[str, Check] = {
    "python": check_python,
    "memory": check_memory,
    "limits": check_limits,
    "disk": check_disk,
    "clock": check_clock,
    "timezones": check_timezones,
    "settings": check_settings,
    "variables": check_variables,
    "password": check_password,
    "home": check_home,
    "encryption": check_encryption_keys,
    "port": check_port,
    "processes": check_processes,
    "started": check_owner_of_home,
    "health": check_health,
    "postgres": check_postgres,
    "migrations": check_migrations,
    "secrets": check_stored_secrets,
    "nats": check_nats,
    "backlog": check_backlog,
    "sandbox": check_sandbox,
    "embedding": check_embedding,
    "providers": check_providers,
    "tools": check_tools,
}


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of one check: a line, or a few."""

    check: str
    findings: tuple[Finding, ...]

    @property
    def is_problem(self) -> bool:
        """Whether one of them stops something."""
        return any(finding.state is State.PROBLEM for finding in self.findings)


def examine(examined: Examined, chosen: Collection[str] = ()) -> Iterator[Result]:
    """Make the checks, all or those chosen, at the same time; gives each result in their order,
    as soon as it and all before it are there."""
    names = [name for name in CHECKS if not chosen or name in chosen]
    # The files are looked at once, so that all checks speak of the same moment.
    assert examined.settings.home
    _ = (examined.state, examined.holder, examined.secrets)
    found: queue.SimpleQueue[Result] = queue.SimpleQueue()
    for name in names:
        # A daemon: one that hangs, say on a disk, keeps nobody from ending.
        threading.Thread(target=_make, args=(name, examined, found), daemon=True).start()
    yield from _in_order(names, found, time.monotonic() + CHECK_SECONDS_MAX)


def _make(name: str, examined: Examined, found: queue.SimpleQueue[Result]) -> None:
    try:
        findings = CHECKS[name](examined)
    except Exception as failed:  # the edge of a check: the others are not to suffer
        log.debug("the check %s failed", name, exc_info=True)
        findings = problem(
            f"the check itself failed ({type(failed).__name__})",  # its text may hold a password
            "heeler version # and report this, please",
        )
    results = (findings,) if isinstance(findings, Finding) else tuple(findings)
    found.put(Result(name, results))


def _in_order(
    names: Sequence[str], found: queue.SimpleQueue[Result], deadline: float
) -> Iterator[Result]:
    waiting: dict[str, Result] = {}
    for name in names:
        while name not in waiting:
            try:
                result = found.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                late = problem(
                    f"no answer within {CHECK_SECONDS_MAX:g} s", f"heeler doctor {name} # alone"
                )
                waiting[name] = Result(name, (late,))
            else:
                waiting.setdefault(result.check, result)
        yield waiting[name]
