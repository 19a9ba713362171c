"""Other ids for everything that a source has, the same ones each time it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from libs.contracts.agent.conversations import main_conversation
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.memory.archives import own_archive_id

ID = re.compile(rb"\b([a-z_]+)-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# What is in an agent's histories alone: no such id means something else.
ALWAYS_OWN = frozenset({b"message", b"run", b"step", b"passage"})
OWN_ARCHIVES_MAPPED = 50


class IdMap:
    """Gives each id of a source another one, and leaves the ids of other things as they are.

    An id is replaced wherever it stands, also within a text: a system message names its agent.
    """

    def __init__(self, import_id: str, own: Iterable[str], agent_ids: Iterable[str]) -> None:
        self.import_id = import_id
        self.fixed: dict[bytes, bytes] = {}
        for old in own:
            self.put(old, derived_id(old.split("-", 1)[0], import_id, old))
        for old in agent_ids:
            new = derived_id("agent", import_id, old)
            self.put(old, new)
            self.put(main_conversation(old), main_conversation(new))
            for number in range(OWN_ARCHIVES_MAPPED):
                self.put(own_archive_id(old, number), own_archive_id(new, number))

    def put(self, old: str, new: str) -> None:
        """From now on, another id for this one."""
        self.fixed[old.encode()] = new.encode()

    def put_all(self, ids: Mapping[str, str]) -> None:
        """From now on, other ids for these."""
        for old, new in ids.items():
            self.put(old, new)

    def of(self, old: str) -> str:
        """The id that stands for another one."""
        return self.apply(old.encode()).decode()

    def apply(self, text: bytes) -> bytes:
        """A text with the other ids."""
        return ID.sub(self.replacement, text)

    def replacement(self, found: re.Match[bytes]) -> bytes:
        """What stands for an id that was found."""
        known = self.fixed.get(found[0])
        if known is not None:
            return known
        if found[1] in ALWAYS_OWN:
            return derived_id(found[1].decode(), self.import_id, found[0].decode()).encode()
        return found[0]


class KeptIds(IdMap):
    """Leaves all ids as they are, but those that are put."""

    def __init__(self) -> None:
        super().__init__("", (), ())

    def replacement(self, found: re.Match[bytes]) -> bytes:
        """What stands for an id that was found."""
        return self.fixed.get(found[0], found[0])


type Mapped = Callable[[bytes], bytes]
