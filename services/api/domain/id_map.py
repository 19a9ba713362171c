"""Other ids for everything that a source has, the same ones each time it is read."""

from __future__ import annotations

import re
from collections.abc import Iterable

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import own_archive_id

ID = re.compile(rb"\b([a-z_]+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# What is in an agent's histories alone: no such id means something else.
ALWAYS_OWN = frozenset({b"message", b"run", b"step", b"passage"})
OWN_ARCHIVES_MAPPED = 50
# The id of a run stands in each of its events: it is derived once.
DERIVED_KEPT_MAX = 10_000


class IdMap:
    """Gives each id of a source another one, and leaves the ids of other things as they are.

    An id is replaced wherever it stands, also within a text: a system message names its agent.
    """

    def __init__(self, import_id: str, own: Iterable[str], agent_ids: Iterable[str]) -> None:
        self.import_id = import_id
        self.fixed: dict[bytes, bytes] = {}
        self.origins: dict[bytes, bytes] = {}  # which id of the source each of these stands for
        self.derived: dict[bytes, bytes] = {}
        for old in own:
            self.put(old, derived_id(old.split("-", 1)[0], import_id, old))
        for old in agent_ids:
            new = derived_id("agent", import_id, old)
            self.put(old, new)
            self.put(main_conversation(old), main_conversation(new))
            for number in range(OWN_ARCHIVES_MAPPED):
                self.put(own_archive_id(old, number), own_archive_id(new, number))

    def put(self, old: str, new: str) -> None:
        """From now on, another id for this one, and for the one of the source that it stands
        for."""
        origin = self.origins.get(old.encode(), old.encode())
        self.fixed[old.encode()] = self.fixed[origin] = new.encode()
        self.origins[new.encode()] = origin

    def of(self, old: str) -> str:
        """The id that stands for another one."""
        return self.apply(old.encode()).decode()

    def apply(self, text: bytes) -> bytes:
        """A text with the other ids."""
        return ID.sub(self.replacement, text)

    def replacement(self, found: re.Match[bytes]) -> bytes:
        """The new id for an id that was found."""
        known = self.fixed.get(found[0])
        if known is not None:
            return known
        return self.derive(found[0], found[1]) if found[1] in ALWAYS_OWN else found[0]

    def derive(self, old: bytes, kind: bytes) -> bytes:
        """The id that stands for one of a kind that is always the source's own."""
        new = self.derived.get(old)
        if new is None:
            if len(self.derived) >= DERIVED_KEPT_MAX:
                self.derived.clear()
            new = derived_id(kind.decode(), self.import_id, old.decode()).encode()
            self.derived[old] = new
        return new


class KeptIds(IdMap):
    """Leaves all ids as they are, but those that are put."""

    def __init__(self) -> None:
        super().__init__("", (), ())

    def replacement(self, found: re.Match[bytes]) -> bytes:
        """The new id for an id that was found."""
        return self.fixed.get(found[0], found[0])
