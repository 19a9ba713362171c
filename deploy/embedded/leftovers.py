"""End what a supervisor that is gone has left."""

from __future__ import annotations

import logging
import signal

from deploy.embedded.postgres_server import FAST_SHUTDOWN_WITHIN
from deploy.embedded.process_activity import LOOK_AGAIN_SECONDS, Allowance
from deploy.embedded.state import InstanceState
from deploy.embedded.subprocesses import STOPS_WITHIN, kill_tree, signal_group

log = logging.getLogger("heeler.supervisor")

KILLED_SECONDS_MAX = 10.0


def kill_leftovers(state: InstanceState | None) -> None:
    """End the children that a dead supervisor recorded, services first; only if still the same."""
    if state is None:
        return
    for part in reversed(state.parts.values()):
        if part.mark is None or part.mark.process() is None:
            continue
        pid, is_postgres = part.mark.pid, part.name == "postgres"
        log.warning("ending %s (pid %s), left by an earlier supervisor", part.name, pid)
        signal_group(pid, signal.SIGINT if is_postgres else signal.SIGTERM)
        within = FAST_SHUTDOWN_WITHIN if is_postgres else STOPS_WITHIN
        allowance = Allowance(within, has_children=is_postgres)
        while not part.mark.wait_gone(LOOK_AGAIN_SECONDS):
            if allowance.is_spent(pid):
                kill_tree(pid)
                part.mark.wait_gone(KILLED_SECONDS_MAX)
                break
