"""What the handlers of the memory service need."""

from __future__ import annotations

from dataclasses import dataclass

from libs.bus.ports import Clock
from services.memory.adapters.attached_agents import AttachedAgents
from services.memory.adapters.block_history import BlockHistory


@dataclass(slots=True)
class HandlerPorts:
    """What a handler may use."""

    clock: Clock
    attached: AttachedAgents
    history: BlockHistory
