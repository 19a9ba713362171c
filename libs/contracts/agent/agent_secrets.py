"""The language of the agent service about the secrets that an agent's tools are given."""

from __future__ import annotations

from typing import ClassVar

from libs.contracts.agent.agents import SERVICE
from libs.contracts.bus_messages import Event
from libs.contracts.sealed_text import Sealed


class AgentSecretsReplaced(Event):
    """The custom tools of an agent get these variables from now on; their values are sealed."""

    service: ClassVar[str] = SERVICE
    topic: ClassVar[str] = "agent.secrets_replaced"
    secrets: dict[str, Sealed]
