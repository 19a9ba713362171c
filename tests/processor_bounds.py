"""Bounds of processor time. What takes more is broken off: slow code does not hang a test."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SECONDS_MAX = 0.5  # of any text at its greatest length, in the process that has the event loop


class TookTooLong(AssertionError):
    """Something needed more processor time than it may have."""


@contextmanager
def processor_time(seconds_max: float = SECONDS_MAX) -> Iterator[None]:
    """Raise TookTooLong within the block when it has used so many seconds of processor, without
    those of other processes. A search of `re` is broken off, too: it looks at signals."""

    def stop(_: int, frame: FrameType | None) -> None:
        raise TookTooLong(f"it takes more than {seconds_max} s of processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds_max)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
