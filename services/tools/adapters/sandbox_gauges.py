"""Gauges of the sandboxes of a process: their number, and the calls that wait for one."""

from __future__ import annotations

from libs.telemetry import metrics
from services.tools.adapters.agent_sandbox_sessions import AgentSandboxSessions
from services.tools.adapters.base_sandbox import BaseSandbox


class SandboxGauges:
    """Looks at the pools of one process."""

    def __init__(self, sandbox: BaseSandbox, sessions: AgentSandboxSessions) -> None:
        self.sandbox = sandbox
        self.sessions = sessions

    async def look(self) -> None:
        """Set the gauges of sandboxes and sessions."""
        pool, places = self.sandbox.pool, self.sandbox.places
        kept = sum(agent.session is not None for agent in self.sessions.agents.values())
        states = {
            "idle": len(pool.idle) if pool else 0,
            "used": places.places - places.free,
            "waiting": len(places.waiting),
            "agents": kept,
        }
        for state, count in states.items():
            metrics.SANDBOXES.labels(state).set(count)
