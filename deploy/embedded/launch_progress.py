"""Whether what `up` and `down` wait for makes progress, and what it does meanwhile."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable, Mapping

from deploy.embedded.process_activity import FROZEN, LOOK_AGAIN_SECONDS, Activity

SHOWN_EVERY_SECONDS = 10.0
SUPERVISOR = "supervisor"
# What Postgres does is done by its children, and what the supervisor waits for too.
PARENTS = ("postgres", SUPERVISOR)


class LaunchProgress:
    """Notes since when there is no progress: no process of those that are awaited had work, or
    waited for a processor or a disk, and nothing was seen for the first time. What the children of
    `parents` do is theirs."""

    def __init__(self, parents: Collection[str] = PARENTS) -> None:
        self._parents = parents
        self._began = self._progressed_at = self._shown_at = time.monotonic()
        self._next_look = 0.0
        self._awaited: list[str] = []
        self._activities: dict[str, Activity] = {}
        self._seen: set[Hashable] = set()

    def note(
        self,
        awaited: Mapping[str, int | None],
        facts: Iterable[Hashable] = (),
        in_vain: Collection[str] = (),
    ) -> None:
        """Look at the awaited processes, by what they are called, and at other facts. What those
        do that are `in_vain` is no progress."""
        now = time.monotonic()
        if not self._seen.issuperset(new := set(facts)):
            self._seen |= new
            self._progressed_at = now
        if now < self._next_look and [*awaited] == self._awaited:
            return
        self._next_look, self._awaited = now + LOOK_AGAIN_SECONDS, [*awaited]
        for name, pid in awaited.items():
            activity = self._activities.setdefault(name, self._new_activity(name))
            activity.look(pid)
            if activity.is_working and name not in in_vain:
                self._progressed_at = now

    @property
    def waited_seconds(self) -> float:
        """For how long somebody waits by now."""
        return time.monotonic() - self._began

    @property
    def stalled_seconds(self) -> float:
        """For how long there was no progress."""
        return time.monotonic() - self._progressed_at

    def tell(self, more: str = "") -> None:
        """Print what is awaited and what it does, every ten seconds."""
        if time.monotonic() - self._shown_at < SHOWN_EVERY_SECONDS:
            return
        self._shown_at = time.monotonic()
        found = [f"{name} ({self._activities[name].doing})" for name in self._awaited]
        print(f"  {self.waited_seconds:4.1f} s  waiting for {', '.join(found)}{more}", flush=True)

    def is_frozen(self, name: str) -> bool:
        """Whether an awaited process was stopped by a signal at the last look."""
        return name in self._activities and self._activities[name].doing == FROZEN

    def _new_activity(self, name: str) -> Activity:
        return Activity(has_children=name in self._parents)
