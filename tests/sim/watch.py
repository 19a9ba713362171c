"""What is checked while the world runs: at the server, where the truth is, and at the model."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from libs.eventstore.ports import LEASE_SECONDS, Commit, StoredEvent
from tests.sim.loop import VirtualLoop
from tests.sim.model import plan_in
from tests.sim.store import Server, Watcher
from tests.unit.given import NOW

DRIVEN = frozenset(
    {
        "model.replied",
        "tool_call.started",
        "tool_calls.started",
        "tool_call.finished",
        "tool_call.interrupted",
        "conversation.compacted",
        "run.completed",
        "run.failed",
        "file.parsed",
        "file.chunks_embedded",
        "file.completed",
        "file.delayed",
        "file.failed",
        "tool_run.ended",
        "tool_run.lost",
    }
)


class Watch(Watcher):
    """Notes what must never happen, when it happens."""

    def __init__(self, loop: VirtualLoop, server: Server) -> None:
        self.loop = loop
        self.server = server
        self.problems: list[str] = []
        self.errors: list[str] = []
        self.held_since: dict[tuple[str, str], float] = {}
        self.held_until: dict[tuple[str, str], float] = {}
        self.holders: dict[str, str] = {}
        self.epochs: dict[str, int] = {}
        self.names: dict[str, tuple[str, str]] = {}
        self.replies: Counter[str] = Counter()
        self.recorded_at: dict[tuple[str, int], float] = {}
        self.times: Counter[tuple[str, int]] = Counter()

    def problem(self, what: str) -> None:
        self.problems.append(f"at {self.loop.now:.3f} s: {what}")

    # The server

    def before_commit(self, service: str, holder: str, commit: Commit) -> None:
        """Remember who holds what, before the commit changes it."""
        leases = self.server.database.schema(service).leases
        self.holders = {key: lease.holder for key, lease in leases.items()}
        self.epochs = {key: lease.epoch for key, lease in leases.items()}

    def after_commit(
        self,
        service: str,
        holder: str,
        commit: Commit,
        epoch: int | None,
        fresh: list[StoredEvent],
    ) -> None:
        """Was it this process's to write?"""
        self.loop.note(len(fresh), epoch or 0)
        fence = commit.fence
        if fence and self.epochs.get(fence.key) != fence.epoch:
            self.problem(f"{holder} wrote under a stale epoch of {fence.key}")
        cancelled = any(event.topic.endswith(".cancelled") for event in fresh)
        for event in fresh:
            if (
                event.topic in DRIVEN
                and not cancelled
                and self.holders.get(event.aggregate_id) != holder
            ):
                self.problem(f"{holder} recorded {event.topic} without holding the lease")
            self.note_step(event)
            self.note_slot(event)
        if fence and commit.release_lease:
            self.lease_released(service, fence.key)
        if commit.take_lease and epoch is not None:
            self.lease_taken(service, holder, commit.take_lease, epoch)

    def racing(self, service: str, holder: str, aggregate_id: str) -> None:
        """Decisions about one aggregate wait for each other in a process."""
        self.problem(f"two decisions of {holder} about {aggregate_id} raced")

    def note_slot(self, event: StoredEvent) -> None:
        """No slot fires before its time."""
        if event.topic == "firing.started":
            slot = datetime.fromisoformat(str(event.payload["slot"]))
            if slot > NOW + timedelta(seconds=self.loop.now):
                self.problem(f"the slot {slot} fired early")

    def note_step(self, event: StoredEvent) -> None:
        """Remember which step of which message is recorded."""
        run_id = str(event.payload.get("run_id"))
        if event.topic == "message.appended" and event.payload.get("sent"):
            message: Any = event.payload["message"]
            # What goes on after a pause is named by nobody.
            name = plan_in(text_in(message)).get("name", run_id)
            self.names[run_id] = (event.aggregate_id, name)
        elif event.topic in ("model.replied", "run.failed") and run_id in self.names:
            name = self.names[run_id][1]
            self.recorded_at[name, self.replies[run_id]] = self.loop.now
            self.replies[run_id] += 1

    def lease_taken(self, service: str, holder: str, key: str, epoch: int | None) -> None:
        """A lease is taken over only after it ran out."""
        if epoch is None:
            return
        place = (service, key)
        if self.held_until.get(place, 0.0) > self.loop.now:
            self.problem(f"{holder} took the lease of {key} while it was held")
        self.held_since[place] = self.loop.now
        self.held_until[place] = self.loop.now + LEASE_SECONDS

    def lease_released(self, service: str, key: str) -> None:
        self.held_until.pop((service, key), None)

    def lease_freed(self, service: str, key: str, holder: str, by: str) -> None:
        """Only what a dead process held is free before it runs out; unless the wish for it comes
        late, from one that is dead itself by now."""
        if {holder, by} <= {process.holder for process in self.shared.running.values()}:
            self.problem(f"the lease of {key} was freed, which {holder} holds")
        self.lease_released(service, key)

    def leases_renewed(self, service: str, held: dict[str, int]) -> None:
        for key in held:
            self.held_until[service, key] = self.loop.now + LEASE_SECONDS

    # The model

    def asked(self, name: str, step: int, holder: str) -> int:
        """The model is asked; returns how often it was asked for this step by now. Whoever takes a
        turn over must not ask for what was recorded before."""
        self.times[name, step] += 1
        recorded_at = self.recorded_at.get((name, step))
        conversation = next((key for key, known in self.names.values() if known == name), "")
        lease = self.server.database.schema("agent").leases.get(conversation)
        mine = lease is not None and lease.holder == holder
        since = self.held_since.get(("agent", conversation), 0.0)
        if mine and recorded_at is not None and since > recorded_at:
            self.problem(f"{holder} asked for step {step} of {name}, which was recorded")
        return self.times[name, step]


def text_in(message: Any) -> str:
    """The text of a message that a client sent."""
    content = message["content"]
    return str(content if isinstance(content, str) else content[0]["text"])
