"""The lines of imports, wherever they come from; each time they are read they are the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import datetime

from libs.bus.ports import BusUnavailable, Clock
from libs.contracts.api.imports import EntryError, ImportOptions, ImportSource
from services.api.adapters.agent_lines import AgentLines, WantedAgent
from services.api.adapters.uploaded_lines import UploadedParts

SERVICES = ("agent", "memory", "tools")
# An older commit that is under way still may belong to what an agent is: it is waited for.
SETTLED_SECONDS_MAX = 5.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedImport:
    """Which lines are wanted, for whom. A source notes in `left_out` what it does not take over, by
    the time of its last line."""

    import_id: str
    org: str
    actor: str
    source: ImportSource
    options: ImportOptions
    requested_at: datetime
    left_out: list[EntryError] = field(default_factory=list)


type AgentFileLines = Callable[[WantedImport], AsyncGenerator[bytes]]


class ImportSources:
    """Reads the sources of imports. `agent_file_lines` reads the files of the retired server."""

    def __init__(
        self, uploads: UploadedParts, agents: AgentLines, agent_file_lines: AgentFileLines
    ) -> None:
        self.uploads = uploads
        self.agents = agents
        self.agent_file_lines = agent_file_lines

    async def settled_cut(self, clock: Clock) -> int:
        """The last commit of all services, when all that are before it have ended. Raises
        BusUnavailable where one takes long."""
        until = clock.monotonic() + SETTLED_SECONDS_MAX
        cut = await self.agents.log.cut_now(SERVICES)
        while clock.monotonic() < until:
            if await self.agents.log.is_settled(SERVICES, cut):
                return cut
            await clock.sleep(LOOK_SECONDS)
        raise BusUnavailable("a long transaction is under way")

    def lines(self, wanted: WantedImport) -> AsyncGenerator[bytes]:
        """The lines of a source, each with its line feed. Raises BadSource as it goes."""
        source = wanted.source
        if source.form == "fork":
            return self.agents.lines(
                WantedAgent(
                    org=wanted.org,
                    agent_id=source.agent_id,
                    cut=source.cut,
                    is_fork=True,
                    now=wanted.requested_at,
                )
            )
        if source.form == "heeler":
            return self.uploads.lines(wanted.org, wanted.import_id)
        return self.agent_file_lines(wanted)
