"""How much of a fault: the least that counts runs with every test, `make chaos` runs more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dose:
    """`faults` kills, wipes, rounds or freezes; `messages` on their way meanwhile."""

    faults: int
    messages: int
    agents: int = 50

    def times(self, factor: float) -> Dose:
        """More of the same; the agents stay, their histories get longer."""
        return Dose(
            max(1, round(self.faults * factor)), max(1, round(self.messages * factor)), self.agents
        )
