"""Places for exports: a few at a time of one process, while the others wait in line.

An export reads all that an agent has. As many at a time as clients ask for would take all
connections to Postgres, and the time of everybody who only wants to say something.
"""

from __future__ import annotations

from libs.bus.fair_semaphore import FairSemaphore, NoPlace
from services.api.http.error_responses import RETRY_AFTER_SECONDS, Problem

# Of one process. Clients wait for 60 s before they ask again. An export lasts as long as its client
# takes to read it: one place is left for other organisations.
EXPORTS_AT_ONCE_MAX = 3
EXPORTS_OF_ORG_AT_ONCE_MAX = 2
WAITING_OF_ORG_MAX = 64
WAIT_SECONDS_MAX = 50.0


class ExportPlaces(FairSemaphore):
    """The exports that one process writes at a time, those of each organisation by turns."""

    def __init__(self) -> None:
        super().__init__(
            EXPORTS_AT_ONCE_MAX,
            of_organisation_max=EXPORTS_OF_ORG_AT_ONCE_MAX,
            of_agent_max=EXPORTS_AT_ONCE_MAX,
            of_organisation_waiting_max=WAITING_OF_ORG_MAX,
            wait_seconds_max=WAIT_SECONDS_MAX,
            users="exports",
            thing="place",
        )

    async def take(self, org: str, agent_id: str) -> None:
        """Wait for a place. Raises the 429 where too many wait, or for too long."""
        try:
            await super().take(org, agent_id)
        except NoPlace as full:
            headers = {"Retry-After": RETRY_AFTER_SECONDS}
            raise Problem(429, {"detail": full.reason}, headers) from None
