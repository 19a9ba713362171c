"""Who sends what a model has to embed hears why that did not answer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from libs.contracts.bus_messages import Context, Rejected
from libs.contracts.memory.archives import SearchPassages
from services.agent.adapters.archival_memory_tools import ArchivalMemoryTools
from services.agent.adapters.file_tools import FileTools
from services.agent.adapters.voice_memory_tools import VoiceMemoryTools
from services.memory.adapters.embedders.embedder_router import BOUNDS

REFUSED = Rejected(code="unavailable", reason="the endpoint does not answer")


class Bus:
    """A service that answers after the endpoint had its time."""

    async def request(self, command: Any, context: Context, *, seconds_max: float) -> Rejected:
        assert seconds_max >= 2 * BOUNDS.seconds
        return REFUSED


@pytest.mark.parametrize(
    ("tools", "others"), [(ArchivalMemoryTools, 1), (FileTools, 1), (VoiceMemoryTools, 2)]
)
async def test_tools_wait_longer_than_an_endpoint_may_take(tools: Any, others: int) -> None:
    """It was as long: the call was made again for two minutes, and nobody heard why."""
    owner = tools(Bus(), *[None] * others)
    calling: Any = SimpleNamespace(
        step_id="step-1", call=SimpleNamespace(id="call-1"), context=Context("m-1")
    )
    assert await owner.send(calling, SearchPassages(asker="s-1", query="tea")) == REFUSED
