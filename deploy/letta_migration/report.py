"""Report of a migration: counts and hashes of each table, the rows left behind and the reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from libs.contracts.bus_messages import Json, JsonObject

LEFT_SHOWN_MAX = 100  # by their ids, of each table


@dataclass(slots=True)
class Report:
    """The counts of a pass, as it goes on."""

    found: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    here: Counter[str] = field(default_factory=Counter)
    hashes: dict[str, str] = field(default_factory=dict)
    hashes_here: dict[str, str] = field(default_factory=dict)
    # Table, what is otherwise: the first ids.
    differences: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    difference_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Table, reason: how often, and the first ids.
    left: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    left_counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    mended: Counter[str] = field(default_factory=Counter)
    providers: list[JsonObject] = field(default_factory=list)

    def count(self, table: str, rows: int = 1) -> None:
        """Count rows of a table that were taken over."""
        self.taken[table] += rows

    def leave(self, table: str, name: str, reason: str) -> None:
        """Note something that stays behind, and why."""
        known = self.left.setdefault((table, reason), [])
        if len(known) < LEFT_SHOWN_MAX:
            known.append(name)
        self.left_counts[table, reason] += 1

    def differ(self, table: str, name: str, how: str) -> None:
        """Note something that is not the same on both sides."""
        known = self.differences.setdefault((table, how), [])
        if len(known) < LEFT_SHOWN_MAX:
            known.append(name)
        self.difference_counts[table, how] += 1

    def add_hash(self, hashes: dict[str, str], table: str, digest: str) -> None:
        """Add the hash of a part of a table to that of the table."""
        before = hashes.get(table)
        hashes[table] = sha256(f"{before}{digest}".encode()).hexdigest() if before else digest

    def mend(self, what: str) -> None:
        """Count something broken in the old server's data that is whole afterwards."""
        self.mended[what] += 1

    def add_earlier(self, document: dict[str, Any]) -> None:
        """Add what a pass noted that nobody was told of, as its `as_json` says it. What stays
        behind each time is counted once."""
        for table, counts in document["tables"].items():
            self.taken[table] += counts["taken"]
        for noted in document["left"]:
            key = (noted["table"], noted["reason"])
            known = self.left.setdefault(key, [])
            known += [name for name in noted["ids"] if name not in known]
            self.left_counts[key] = max(self.left_counts[key], noted["count"], len(known))
        self.mended |= Counter(document["mended"])

    @property
    def tables(self) -> list[str]:
        """The tables that something is known of."""
        return sorted({*self.found, *self.taken})

    def as_json(self) -> JsonObject:
        """All of it, for programs."""
        return {
            "tables": {table: self.table(table) for table in self.tables},
            "left": as_list(self.left, self.left_counts),
            "differences": as_list(self.differences, self.difference_counts),
            "mended": dict(sorted(self.mended.items())),
            "providers": [*self.providers],
        }

    def table(self, table: str) -> JsonObject:
        """Counts and hashes of a table: what the last pass took over, and where both sides were
        compared, what either has."""
        document: JsonObject = {"taken": self.taken[table]}
        if table in self.found:
            document |= {
                "found": self.found[table],
                "here": self.here[table],
                "sha256": self.hashes[table],
                "sha256_here": self.hashes_here[table],
            }
        return document

    def as_text(self) -> str:
        """All of it, for people."""
        lines = [f"{'table':<30} {'taken':>9} {'found':>9} {'here':>9}  sha256, here"]
        for table in self.tables:
            known = table in self.found
            found, here = (self.found[table], self.here[table]) if known else ("", "")
            hashes = f"{self.hashes[table][:12]} {self.hashes_here[table][:12]}" if known else ""
            lines.append(f"{table:<30} {self.taken[table]:>9} {found:>9} {here:>9}  {hashes}")
        for (table, reason), names in sorted(self.left.items()):
            count = self.left_counts[table, reason]
            lines.append(f"\n{count} of {table} stay behind: {reason}")
            lines.extend(f"    {name}" for name in names)
        for (table, how), names in sorted(self.differences.items()):
            lines.append(f"\n{self.difference_counts[table, how]} of {table} differ: {how}")
            lines.extend(f"    {name}" for name in names)
        lines.extend(f"\n{what}: {count}" for what, count in sorted(self.mended.items()))
        if self.providers:
            lines.append("\nProviders of the old server, and what configures each here:")
        lines.extend(
            f"    {provider['name']} ({provider['type']}): {provider['configured_by']}"
            for provider in self.providers
        )
        return "\n".join(lines)


def as_list(
    named: dict[tuple[str, str], list[str]], counts: Counter[tuple[str, str]]
) -> list[Json]:
    """The remarks on tables, each with its count."""
    return [
        {"table": table, "reason": reason, "count": counts[table, reason], "ids": [*names]}
        for (table, reason), names in sorted(named.items())
    ]
