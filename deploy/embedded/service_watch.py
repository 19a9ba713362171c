"""Whether the processes of the services do what clients need: asked by what clients send.

Every process is asked for a sign of life in NATS' own protocol for services, and every service by a
command, which NATS has to store and the service to answer after it has written to Postgres; the api
by HTTP, too. Each is judged by its own answer, in its own time (`process_activity.py`), and only
for the time in which Postgres and NATS are known to have been well: what waits for another, for a
processor or for a disk is not ill. `docs/operations.md` has the bounds in a table.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import uuid4

from deploy.embedded.nats_session import NatsSession
from deploy.embedded.process_activity import OwnTime
from deploy.embedded.service_commands import HTTP_PARTS
from deploy.embedded.settings import ALL_SERVICES, SERVICES, service_of
from deploy.embedded.supervised_process import (
    FIRST_ANSWER_WITHIN,
    LOOK_SECONDS,
    Look,
    Missing,
    Part,
    Well,
)
from libs.contracts.stream_definitions import is_stored

COMMAND_EVERY_LOOKS = 3  # a command costs a commit
BUSY_SECONDS_MAX = 60.0  # on a processor, without an answer
COMMAND_SECONDS_MAX = 30.0  # idle: a command waits behind a restart and a lot of others
ASK_GAP_SECONDS_MAX = 2 * LOOK_SECONDS
ASKED_KEPT = 64
STORED_SECONDS_MAX = 3.0
RELAY_SECONDS_MAX = 10.0  # with events to publish, and none published
QUESTION_SECONDS_MAX = 10.0
SIGN_KEPT_SECONDS = 86_400.0
NEVER = float("-inf")


@dataclass(slots=True)
class Heard:
    """The observations of one service, in seconds of the supervisor's clock."""

    answered_at: float = NEVER
    published: int = -1  # how far its relay is
    published_at: float = float("inf")  # since when it is there with something left to publish


@dataclass(slots=True)
class Answers:
    """The answers, by pid and by service; `asked` holds the messages that NATS has not said to have
    stored, by where they go, and since when."""

    signs: dict[int, float] = field(default_factory=dict)
    services: dict[str, Heard] = field(default_factory=lambda: {name: Heard() for name in SERVICES})
    asked: dict[str, float] = field(default_factory=dict)

    def hear(self, subject: str, payload: bytes, now: float) -> None:
        """Note an answer; the subject says to what."""
        kind, _, about = subject.partition(".")
        if kind == "stored" and is_stored(payload):
            self.asked.pop(about, None)
        try:
            if kind == "sign":
                process = json.loads(payload)["metadata"]["process"]
                self.signs[int(process.rpartition(":")[2])] = now
            elif kind == "answer":
                self.hear_service(self.services[about], json.loads(payload), now)
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # somebody else's words

    def hear_service(
        self, heard: Heard, answer: dict[str, dict[str, dict[str, int]]], now: float
    ) -> None:
        """Note what a service says of itself."""
        heard.answered_at = now
        relay = (answer.get("result") or {}).get("relay")
        if relay is None:
            return
        if relay["done"] != heard.published or not relay["waiting"]:
            heard.published = relay["done"]
            heard.published_at = now if relay["waiting"] else float("inf")
        elif heard.published_at == float("inf"):
            heard.published_at = now

    def forget_signs(self, now: float) -> None:
        """Forget processes that have been silent for so long that they are gone."""
        self.signs = {pid: at for pid, at in self.signs.items() if now - at < SIGN_KEPT_SECONDS}

    def relay_stands(self, service: str, now: float) -> bool:
        """Whether a relay has had something to publish for long, and has published nothing."""
        return now - self.services[service].published_at > RELAY_SECONDS_MAX

    def stores(self, now: float) -> bool:
        """Whether NATS says in time that it has stored what it was sent."""
        return all(now - asked <= STORED_SECONDS_MAX for asked in [*self.asked.values()])


class ServiceWatch:
    """Asks, hears, and judges the parts. `dependencies` say from when until when Postgres and
    NATS are known to have been well."""

    def __init__(
        self,
        url: str,
        dependencies: Iterable[Callable[[], Well | None]],
        *,
        frozen_seconds_max: float,
    ) -> None:
        self.answers = Answers()
        self._session = NatsSession(url, self._hear)
        self._dependencies = tuple(dependencies)
        self._frozen_seconds_max = frozen_seconds_max
        self._asked: deque[float] = deque(maxlen=ASKED_KEPT)
        self._asking_since = NEVER
        self.clients_answered_at = NEVER

    async def run(self, answers_clients: Callable[[], bool]) -> None:
        """Ask until this is cancelled; `answers_clients` asks the api by HTTP."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._session.run())
            group.create_task(self._ask_as_client(answers_clients))
            for look in count():
                self._ask(commands=look % COMMAND_EVERY_LOOKS == 0 or bool(self.answers.asked))
                await asyncio.sleep(LOOK_SECONDS)

    async def _ask_as_client(self, answers_clients: Callable[[], bool]) -> None:
        while True:
            if await asyncio.to_thread(answers_clients):
                self.clients_answered_at = time.monotonic()
            await asyncio.sleep(COMMAND_EVERY_LOOKS * LOOK_SECONDS)

    def ask_for_signs(self) -> None:
        """Ask all processes for a sign of life, out of turn; nobody is judged by it."""
        self._session.publish("$SRV.PING", b"", reply="sign")

    def gave_sign(self, part: Part) -> bool:
        """Whether the process that a part is now has ever given a sign of life."""
        return part.pid is not None and part.pid in self.answers.signs

    def stores(self) -> bool:
        """Whether NATS stores what it is sent; of one that cannot be reached that is not known."""
        now = time.monotonic()
        return not self._asks(now) or self.answers.stores(now)

    def _asks(self, now: float) -> bool:
        """Whether it has asked lately: else the supervisor, or the machine, stood still."""
        return bool(self._asked) and now - self._asked[-1] <= ASK_GAP_SECONDS_MAX

    def look(self, part: Part) -> Look:
        """Whether a process gave a sign of life, and its service an answer, and what each of them
        owes; one that waits for Postgres or NATS owes nothing."""
        now = time.monotonic()
        wells = [well for dependency in self._dependencies if (well := dependency()) is not None]
        if part.pid is None or len(wells) < len(self._dependencies) or not self._asks(now):
            return Look(is_well=False)
        since = max(part.started_at, self._asking_since, *(well.since for well in wells))
        sign = self.answers.signs.get(part.pid, NEVER)
        heard = {
            f"an answer of {name}": self.answers.services[name].answered_at
            for name in services_of(part)
        }
        if service_of(part.command.name) in HTTP_PARTS:
            heard["an answer by HTTP"] = self.clients_answered_at
        missing = [
            self._owed(what, max(at, since), COMMAND_SECONDS_MAX, is_first=at <= since)
            for what, at in heard.items()
        ]
        if any(asked > max(sign, since) for asked in [*self._asked]):
            owed_since, is_first = max(sign, since), sign == NEVER
            missing.append(self._owed("a sign of life", owed_since, 0.0, is_first=is_first))
        is_well = min(sign, *heard.values()) > since
        return Look(is_well, tuple(missing), min(well.until for well in wells))

    def _owed(self, what: str, since: float, idle_seconds: float, *, is_first: bool) -> Missing:
        bound = FIRST_ANSWER_WITHIN if is_first else OwnTime(BUSY_SECONDS_MAX, idle_seconds)
        idle_seconds = max(bound.idle_seconds, self._frozen_seconds_max)
        return Missing(what, since, replace(bound, idle_seconds=idle_seconds))

    def _ask(self, *, commands: bool) -> None:
        now = time.monotonic()
        self.answers.forget_signs(now)
        if not self._session.publish("$SRV.PING", b"", reply="sign"):
            return
        if not self._asks(now):
            self._asking_since = now
        self._asked.append(now)
        for service in SERVICES:
            if commands:
                self._send_command(service, now)
            # Its stream may be broken. Whoever follows the service drops what has no position.
            event = f"{service}.event.relay.asked.supervisor"
            if event in self.answers.asked or self.answers.relay_stands(service, now):
                self._ask_to_store(event, b"{}", {}, now)

    def _send_command(self, service: str, now: float) -> None:
        # Not before they are needed: they are slow to import.
        from libs.bus import message_headers
        from libs.bus.ports import outgoing
        from libs.contracts.bus_messages import Context
        from libs.contracts.per_service_commands import health_command

        question = outgoing(health_command(service, "supervisor"), Context(f"check-{uuid4()}"))
        reply_to = f"{self._session.inbox}.answer.{service}"
        headers = message_headers.of_command(question, reply_to)
        message_headers.waiting(headers, 0.0, QUESTION_SECONDS_MAX)
        self._ask_to_store(question.subject, question.payload, headers, now)

    def _ask_to_store(
        self, subject: str, payload: bytes, headers: dict[str, str], now: float
    ) -> None:
        if self._session.publish(subject, payload, reply=f"stored.{subject}", headers=headers):
            self.answers.asked.setdefault(subject, now)

    def _hear(self, subject: str, payload: bytes) -> None:
        self.answers.hear(subject, payload, time.monotonic())


def services_of(part: Part) -> tuple[str, ...]:
    """The services that a part is a process of."""
    service = service_of(part.command.name)
    return SERVICES if service == ALL_SERVICES else (service,)
