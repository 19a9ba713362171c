"""Deadlines of MCP servers, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from libs.contracts.environment_parsing import seconds

CONNECT_SECONDS_MAX = 30.0
LIST_SECONDS_MAX = 30.0
CALL_SECONDS_MAX = 300.0


@dataclass(frozen=True, slots=True)
class McpDeadlines:
    """The seconds to connect to a server, to list its offers, and to carry out a call, however much
    more time the run has."""

    connect_seconds: float = CONNECT_SECONDS_MAX
    list_seconds: float = LIST_SECONDS_MAX
    call_seconds: float = CALL_SECONDS_MAX

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> McpDeadlines:
        """HEELER_MCP_CONNECT_SECONDS_MAX, HEELER_MCP_LIST_SECONDS_MAX,
        HEELER_MCP_CALL_SECONDS_MAX. Raises WrongSetting."""
        return cls(
            seconds(environment, "HEELER_MCP_CONNECT_SECONDS_MAX", CONNECT_SECONDS_MAX),
            seconds(environment, "HEELER_MCP_LIST_SECONDS_MAX", LIST_SECONDS_MAX),
            seconds(environment, "HEELER_MCP_CALL_SECONDS_MAX", CALL_SECONDS_MAX),
        )
