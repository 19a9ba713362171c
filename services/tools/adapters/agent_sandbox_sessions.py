"""Which sandbox an agent's programs run in: always its own, while it is in use, and nobody else's.

Between programs it is frozen; after a while without any, or when another agent needs the room, it
is ended. Its workspace stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from libs.bus.fair_semaphore import PLACES, WAIT_SECONDS_MAX, FairSemaphore, NoPlace
from services.tools.adapters.agent_workspaces import (
    WORKSPACE_BYTES_MAX,
    WORKSPACE_FILES_MAX,
    AgentWorkspaces,
    NoWorkspace,
    Used,
)
from services.tools.adapters.base_sandbox import BaseSandbox, not_started
from services.tools.adapters.sandbox_session import SandboxSession
from services.tools.sandbox.ports import Outcome, Program, Workspace
from services.tools.sandbox.sessions import NoSession

# Of one process; as many as programs run at once, so that one that is idle can make room.
SESSIONS_MAX = PLACES
SESSION_IDLE_SECONDS_MAX = 120.0
TIMER_SECONDS = 0.01  # how much too early a timer may be
# What an idle one may hold in memory; one with more is ended after its program.
SESSION_IDLE_BYTES_MAX = 96 << 20
# How often it is looked at how much a workspace holds while a program runs: not more than a tenth
# of the time goes into that.
QUOTA_LOOK_SECONDS = 0.2
QUOTA_LOOK_FACTOR = 10

type Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class Affinity:
    """The sandbox of one agent: `users` run a program in it or wait to."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    session: SandboxSession | None = None
    users: int = 0
    used_at: float = 0.0


class AgentSandboxSessions:
    """Keeps the contract of `Sandbox` for programs that have the workspace of an agent."""

    def __init__(
        self,
        sandbox: BaseSandbox,
        workspaces: AgentWorkspaces,
        places: FairSemaphore,
        *,
        idle_seconds_max: float = SESSION_IDLE_SECONDS_MAX,
        bytes_max: int = WORKSPACE_BYTES_MAX,
        files_max: int = WORKSPACE_FILES_MAX,
    ) -> None:
        self.sandbox = sandbox
        self.workspaces = workspaces
        self.places = places
        self.idle_seconds_max = idle_seconds_max
        self.bytes_max = bytes_max
        self.files_max = files_max
        self.agents: dict[Key, Affinity] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.closed = False

    def refusal_of(self, program: Program) -> str:
        """Why a program cannot run here; empty if it can."""
        if self.closed:
            return "The server is being stopped"
        try:
            self.workspaces.path(program.org, program.agent_id)
        except NoWorkspace as none:
            return f"There is no workspace: {none}"
        return self.sandbox.refusal_of(program)

    async def run(self, program: Program) -> Outcome:
        """The outcome of a program, after those of the same agent that came before it. Cancelling
        it kills the program."""
        refused = self.refusal_of(program)
        if refused:
            return not_started(refused)
        key = (program.org, program.agent_id)
        try:
            async with self.turn(key) as agent, self.places.hold(*key):
                workspace = await self.workspaces.open(*key)
                return await self.execute(agent, workspace, program)
        except (NoPlace, NoSession, NoWorkspace, OSError) as problem:
            return not_started(str(problem))

    @asynccontextmanager
    async def turn(self, key: Key) -> AsyncIterator[Affinity]:
        """The agent's affinity, when its turn has come; raises NoPlace."""
        agent = self.agents.setdefault(key, Affinity())
        agent.users += 1
        try:
            try:
                async with asyncio.timeout(WAIT_SECONDS_MAX):
                    await agent.lock.acquire()
            except TimeoutError:
                why = "Other programs of this agent run in its workspace: try again in a moment"
                raise NoPlace(why) from None
            try:
                yield agent
            finally:
                loop = asyncio.get_running_loop()
                agent.used_at = loop.time()
                loop.call_later(self.idle_seconds_max, self.end_idle)
                agent.lock.release()
        finally:
            agent.users -= 1
            self.forget_unused(key, agent)

    async def execute(self, agent: Affinity, workspace: Workspace, program: Program) -> Outcome:
        """Run a program in the agent's sandbox, and freeze the sandbox afterwards."""
        before = await self.workspaces.usage(workspace)
        session = agent.session
        if session is None or session.stats().state == "stopped":
            agent.session = None
            if session is not None:  # it ended by itself
                await session.stop()
            await self.make_room()
            session = agent.session = await self.sandbox.start_session(workspace)
        watching = asyncio.create_task(self.watch_quota(session, workspace, before))
        try:
            outcome = await session.exec(program)
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            await self.rest(agent, session)
        return outcome

    async def rest(self, agent: Affinity, session: SandboxSession) -> None:
        """Freeze a sandbox until it is needed again; end it, if it holds too much for that."""
        await session.pause()
        stats = session.stats()
        if self.closed or stats.memory_bytes > SESSION_IDLE_BYTES_MAX:
            await asyncio.shield(session.stop())
        if session.stats().state == "stopped":
            agent.session = None
            await asyncio.shield(session.stop())

    async def watch_quota(
        self, session: SandboxSession, workspace: Workspace, before: Used
    ) -> None:
        """End a program that has put more into its workspace than may be in it. What holds more
        already may become less."""
        bytes_max = max(self.bytes_max, before.bytes)
        files_max = max(self.files_max, before.files)
        loop = asyncio.get_running_loop()
        while True:
            since = loop.time()
            used = await self.workspaces.usage(workspace)
            over = used.over(bytes_max, files_max, may_be_deep=before.deep)
            if over:
                session.end_program(f"It was ended because {over}")
                return
            took = loop.time() - since
            await asyncio.sleep(max(QUOTA_LOOK_SECONDS, QUOTA_LOOK_FACTOR * took))

    async def make_room(self) -> None:
        """End the sandbox that was not used for longest, where there are as many as may be."""
        living = [agent for agent in self.agents.values() if agent.session is not None]
        idle = [agent for agent in living if agent.users == 0]
        if len(living) >= SESSIONS_MAX and idle:
            await self.end(min(idle, key=lambda agent: agent.used_at))

    def end_idle(self) -> None:
        """End the sandboxes that nobody has used for a while."""
        long_ago = asyncio.get_running_loop().time() - self.idle_seconds_max + TIMER_SECONDS
        for agent in list(self.agents.values()):
            if agent.users == 0 and agent.session is not None and agent.used_at <= long_ago:
                task = asyncio.create_task(self.end(agent))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    async def end(self, agent: Affinity) -> None:
        """End the sandbox of an agent, if it has one."""
        session, agent.session = agent.session, None
        if session is not None:
            await session.stop()
        for key, other in list(self.agents.items()):
            if other is agent:
                self.forget_unused(key, other)

    def forget_unused(self, key: Key, agent: Affinity) -> None:
        """Keep nothing of an agent that has no sandbox and waits for none."""
        if agent.users == 0 and agent.session is None:
            self.agents.pop(key, None)

    async def remove(self, org: str, agent_id: str) -> None:
        """End the sandbox of an agent that is no more, and remove its workspace."""
        async with self.turn((org, agent_id)) as agent:
            await self.end(agent)
            await self.workspaces.remove(org, agent_id)

    async def close(self) -> None:
        """End all sessions of all agents."""
        self.closed = True
        await asyncio.gather(*(self.end(agent) for agent in list(self.agents.values())))
        await asyncio.gather(*self.tasks, return_exceptions=True)
