"""The lines of imports, wherever they come from; each time they are read they are the same."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from datetime import datetime

from libs.contracts.api.imports import EntryError, ImportOptions, ImportSource
from services.api.adapters.agents.agent_lines import AgentLines, WantedAgent
from services.api.adapters.agents.uploaded_lines import UploadedParts


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
