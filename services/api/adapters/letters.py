"""The dead letters of all services, from the views that they publish."""

from __future__ import annotations

from dataclasses import dataclass

from libs.contracts.streams import SERVICES
from services.api.adapters.reads import Filter, Reads, Slice

LETTERS = "({})".format(
    " union all ".join(f"select * from {service}.dead_letter_view" for service in SERVICES)
)
# As json, and not as jsonb, a payload stays as it was sent.
DOCUMENT = (
    "(select to_json(shown) from (select v.id, v.created_at, v.service, v.kind, v.name, v.subject,"
    " v.message_id, v.payload, v.payload_text, v.context, v.attempts, v.first_at, v.last_at,"
    " v.error_class, v.error_text, v.correlation_id, v.status, v.outcome) shown)"
)
OPEN_LETTERS = "select {}".format(
    " + ".join(
        f"(select count(*) from {service}.dead_letter_view where status <> 'replayed')"
        for service in SERVICES
    )
)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters."""

    org: str
    service: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None


class LetterReads:
    """What the api reads of dead letters."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads

    async def page(self, wanted: LetterFilter, part: Slice) -> bytes:
        """A page of letters, by the time at which they were parked."""
        found = Filter(["v.org = %(org)s"], {"org": wanted.org})
        for name in ("service", "name", "kind", "status"):
            found.add(f"v.{name} = %({name})s", name, getattr(wanted, name))
        return await self.reads.page(LETTERS, DOCUMENT, found, part)

    async def one(self, org: str, letter_id: str) -> bytes | None:
        """One letter."""
        return await self.reads.one(
            f"select ({DOCUMENT})::text from {LETTERS} v where v.id = %s and v.org = %s",
            [letter_id, org],
        )

    async def owner(self, org: str, letter_id: str) -> str | None:
        """The service that keeps a letter."""
        row = await self.reads.database.fetch_one(
            f"select v.service from {LETTERS} v where v.id = %s and v.org = %s", [letter_id, org]
        )
        return row[0] if row else None
