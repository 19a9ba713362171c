"""What a migration tells in the end: counts and hashes of each table, what stays behind and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from libs.contracts.bus_messages import JsonObject

LEFT_SHOWN_MAX = 100  # by their ids, of each table


@dataclass(slots=True)
class Report:
    """The counts of a pass, as it goes on."""

    found: Counter[str] = field(default_factory=Counter)
    taken: Counter[str] = field(default_factory=Counter)
    hashes: dict[str, str] = field(default_factory=dict)
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

    def mend(self, what: str) -> None:
        """Count something broken in the old server's data that is whole afterwards."""
        self.mended[what] += 1

    def as_json(self) -> JsonObject:
        """All of it, for programs."""
        return {
            "tables": {
                table: {
                    "found": self.found[table],
                    "taken": self.taken[table],
                    "sha256": self.hashes.get(table, ""),
                }
                for table in sorted({*self.found, *self.taken})
            },
            "left": [
                {"table": table, "reason": reason, "count": self.left_counts[table, reason],
                 "ids": [*names]}
                for (table, reason), names in sorted(self.left.items())
            ],
            "mended": dict(sorted(self.mended.items())),
            "providers": [*self.providers],
        }  # fmt: skip

    def as_text(self) -> str:
        """All of it, for people."""
        lines = [f"{'table':<30} {'found':>9} {'taken':>9}  sha256"]
        for table in sorted({*self.found, *self.taken}):
            found = self.found.get(table, "")
            shown = self.hashes.get(table, "")[:16]
            lines.append(f"{table:<30} {found:>9} {self.taken[table]:>9}  {shown}")
        for (table, reason), names in sorted(self.left.items()):
            count = self.left_counts[table, reason]
            lines.append(f"\n{count} of {table} stay behind: {reason}")
            lines.extend(f"    {name}" for name in names)
        lines.extend(f"\n{what}: {count}" for what, count in sorted(self.mended.items()))
        if self.providers:
            lines.append("\nProviders of the old server, and what configures each here:")
        lines.extend(
            f"    {provider['name']} ({provider['type']}): {provider['configured_by']}"
            for provider in self.providers
        )
        return "\n".join(lines)
