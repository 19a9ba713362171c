"""What a system prompt says of an agent's archives: how much is in them, and its tags."""

from __future__ import annotations

from dataclasses import dataclass

# Who has none of these is not told: nothing is read for its prompt, and nothing changes in it.
ARCHIVAL_TOOL_NAMES = frozenset(
    {"archival_memory_insert", "archival_memory_search", "search_memory", "store_memories"}
)
# More passages are not counted, so a prompt changes no more once there are so many.
COUNTED_MAX = 1_000
TAGS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True)
class ArchivalMemory:
    """The passages of an agent's archives, of which no more than `COUNTED_MAX` + 1 are counted, and
    the tags of the newest."""

    passages: int = 0
    tags: tuple[str, ...] = ()

    @property
    def counted(self) -> str:
        """How many there are, as a prompt says it."""
        return f"more than {COUNTED_MAX}" if self.passages > COUNTED_MAX else str(self.passages)


NO_ARCHIVES = ArchivalMemory()
