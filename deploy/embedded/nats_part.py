"""NATS as a part of the server: where its store seems damaged, it is started with an empty one."""

from __future__ import annotations

import logging
from collections.abc import Callable

from deploy.embedded.nats_server import Nats, NatsStart
from deploy.embedded.subprocesses import Command
from deploy.embedded.supervised_process import (
    SERVER_STARTS_WITHIN,
    EndsAgainAndAgain,
    Failed,
    Look,
    Missing,
    Part,
    look_at_server,
)

log = logging.getLogger("heeler.supervisor")

STARTS_IN_VAIN_MAX = 2  # before the store is taken for the reason

type AddPart = Callable[[Command, Callable[[Part], None]], Part]


class NatsPart:
    """Starts NATS as a part that `add` makes, and looks at it. `notify` gets a sentence for the
    operator when the store was set aside."""

    def __init__(self, nats: Nats, add: AddPart, notify: Callable[[str], None]) -> None:
        self._nats = nats
        self._add = add
        self._notify = notify
        self._has_empty_store = False  # and has not been well since

    async def start(self) -> None:
        """Start NATS; where it does not get ready, once more with an empty store."""
        for last in (False, True):
            part = self._add(self._nats.command(), self.mend)
            try:
                await part.wait_ready(NatsStart(self._nats, part).ready)
            except Failed as failure:
                in_vain = part.starts_in_vain >= STARTS_IN_VAIN_MAX
                killed = isinstance(failure, EndsAgainAndAgain) and not in_vain
                await part.stop()
                if last or killed or not self._set_aside_store():
                    raise
            else:
                return

    def mend(self, part: Part) -> None:
        """Before each start: one that was of no use twice is made with an empty store."""
        if not self._nats.is_prepared:  # on a full disk it could not be written again
            self._nats.prepare()
        if part.starts_in_vain >= STARTS_IN_VAIN_MAX:
            self._set_aside_store()

    def look(self, part: Part, stores: Callable[[], bool]) -> Look:
        """One that reads its store is heard of once it has read it, which may take long."""
        if not self._nats.listens():
            reads = Missing("its store", part.started_at, SERVER_STARTS_WITHIN)
            return Look(is_well=False, missing=(reads,))
        is_well = self._nats.ready() and stores()
        self._has_empty_store = self._has_empty_store and not is_well
        return look_at_server(part, is_well=is_well)

    def _set_aside_store(self) -> bool:
        """Only once until NATS was well again: an empty store is no reason that it is not."""
        if self._has_empty_store:
            return False
        try:
            aside = self._nats.set_aside_store()
        except OSError as error:
            log.error("the store of nats cannot be set aside: %s", error)
            return False
        if aside is None:
            return False
        self._has_empty_store = True
        self._notify(
            f"The store of NATS was damaged and is set aside as {aside}. Nothing is lost: what was"
            " in it is made again from Postgres."
        )
        return True
