"""The forks that somebody waits for here, or was answered with: nobody else may be given one of
these.

A client that asks again says only that, and many may ask for the same. So it is given a fork that
was begun for such a request and has nobody: its client gave up waiting, or the process that it
asked has ended.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

KNOWN_MAX = 4_096


class AwaitedForks:
    """Remembers the forks that this process took for its clients last."""

    def __init__(self) -> None:
        self.taken: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, import_id: str) -> bool:
        return import_id in self.taken

    @property
    def ids(self) -> list[str]:
        """The imports that make them."""
        return [*self.taken]

    @contextmanager
    def taking(self, import_id: str) -> Iterator[None]:
        """Wait for a fork in this block, and be answered with it at its end. Where that does not
        come, as when the client hangs up, the fork has nobody again."""
        self.taken[import_id] = None
        while len(self.taken) > KNOWN_MAX:
            self.taken.popitem(last=False)
        try:
            yield
        except BaseException:
            self.taken.pop(import_id, None)
            raise
