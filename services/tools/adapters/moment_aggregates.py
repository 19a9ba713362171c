"""Which aggregates of the tools service are an agent's, at a commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from libs.eventstore.moments import WantedMoment


class ToolMomentAggregates:
    """The tools of an agent, which others know."""

    async def stages(
        self, wanted: WantedMoment, ids: Sequence[str], as_of: int
    ) -> AsyncIterator[Sequence[str]]:
        """All the tools that are named."""
        yield ids
