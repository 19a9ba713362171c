"""Quota of an organisation's tools: their number, and their size together."""

from __future__ import annotations

from dataclasses import dataclass

from libs.contracts.bus_messages import UNPROCESSABLE, Rejected

TOOLS_OF_ORG_MAX = 5_000
TOOLS_OF_ORG_BYTES_MAX = 256 << 20


@dataclass(frozen=True, slots=True)
class ToolsOfOrg:
    """The tools that an organisation has: how many, and their bytes as they are stored."""

    count: int = 0
    stored_bytes: int = 0


def no_room(there: ToolsOfOrg) -> Rejected | None:
    """Why an organisation cannot have another tool; None if it can. Whoever asks holds the lock of
    the organisation's tools: only those that several processes make in the same moment may pass a
    limit, by one for each further process."""
    if there.count >= TOOLS_OF_ORG_MAX:
        reason = (
            f"This organisation has {there.count} tools, and {TOOLS_OF_ORG_MAX} are the most:"
            " delete some first"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if there.stored_bytes >= TOOLS_OF_ORG_BYTES_MAX:
        reason = (
            f"The tools of this organisation take {there.stored_bytes} bytes, and"
            f" {TOOLS_OF_ORG_BYTES_MAX} are the most: delete or shorten some first"
        )
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None
