"""Which runs a retry cannot mean: those that began before its first try came.

An SDK gives its requests no names. A retry says only that it is one, so it is matched to the latest
run of the same request; but a user may say the same thing twice, and a retry of the second time
must not be answered with the first run.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

REQUESTS_MAX = 10_000
RUNS_OF_A_REQUEST_MAX = 16

Key = tuple[str, str, str]  # organisation, conversation, hash of the request


@dataclass(slots=True)
class Runs:
    """The runs of one request, as far as this process knows: those that began before the last
    first try came, and those since."""

    before: list[str] = field(default_factory=list)
    since: list[str] = field(default_factory=list)


class IdenticalRequestRuns:
    """Remembers the requests that came last; of others it knows nothing, and excludes nothing."""

    def __init__(self) -> None:
        self.requests: OrderedDict[Key, Runs] = OrderedDict()

    def note_first_try(self, key: Key) -> None:
        """A request came that is not a retry: what began up to now is not its run."""
        known = self.of(key)
        known.before = [*known.before, *known.since][-RUNS_OF_A_REQUEST_MAX:]
        known.since = []

    def note_run(self, key: Key, run_id: str) -> None:
        """A request is answered by this run."""
        known = self.of(key)
        if run_id not in known.before and run_id not in known.since:
            known.since = [*known.since, run_id][-RUNS_OF_A_REQUEST_MAX:]

    def excluded_runs(self, key: Key) -> list[str]:
        """The runs that a retry of this request cannot mean."""
        known = self.requests.get(key)
        return known.before if known else []

    def of(self, key: Key) -> Runs:
        """The runs of a request, which is now the latest."""
        known = self.requests.setdefault(key, Runs())
        self.requests.move_to_end(key)
        while len(self.requests) > REQUESTS_MAX:
            self.requests.popitem(last=False)
        return known
