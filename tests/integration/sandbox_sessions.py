"""What every sandbox does for the sessions of an organisation."""

from __future__ import annotations

from services.tools.adapters.base_sandbox import BaseSandbox
from services.tools.adapters.sandbox_session import SandboxSession
from services.tools.sandbox.ports import Limits, Program, Workspace
from tests.integration.in_memory_sessions import InMemorySession, InMemorySessions

ORG = "org-1"


def shell(source: str, agent_id: str = "agent-1", seconds: float = 20.0) -> Program:
    return Program(
        "shell",
        source,
        org=ORG,
        agent_id=agent_id,
        in_workspace=True,
        limits=Limits(seconds),
    )


class SessionCases:
    """SBX-01: what every sandbox that stays keeps to."""

    sessions: BaseSandbox | InMemorySessions
    workspace: Workspace

    async def session(self) -> SandboxSession | InMemorySession:
        return await self.sessions.start_session(self.workspace)

    async def test_it_runs_one_program_after_another_and_can_be_frozen_between(self):
        session = await self.session()
        assert session.stats().state == "idle"
        assert (await session.exec(shell("echo tea > cup"))).status == "success"
        await session.pause()
        await session.pause()
        assert session.stats().state == "paused"
        session.resume()
        session.resume()
        assert session.stats().state == "idle"
        await session.pause()
        outcome = await session.exec(shell("cat cup"))
        assert (outcome.status, outcome.stdout) == ("success", "tea\n")
        assert (await session.exec(shell("cat nothing"))).status == "error"
        stats = session.stats()
        assert (stats.state, stats.programs) == ("idle", 3)
        await session.stop()

    async def test_what_is_stopped_stays_so_and_the_workspace_stays(self):
        session = await self.session()
        await session.exec(shell("echo tea > cup"))
        for _ in range(2):
            await session.stop()
        await session.pause()
        session.resume()
        session.end_program("nobody waits")
        outcome = await session.exec(shell("cat cup"))
        assert (outcome.started, outcome.reason) == (False, "The sandbox has ended")
        assert session.stats().state == "stopped"
        another = await self.session()
        assert (await another.exec(shell("cat cup"))).stdout == "tea\n"
        await another.stop()

    async def test_a_program_that_does_not_end_ends_the_session(self):
        session = await self.session()
        outcome = await session.exec(shell("sleep 60", seconds=0.2))
        assert (outcome.status, session.stats().state) == ("timeout", "stopped")
