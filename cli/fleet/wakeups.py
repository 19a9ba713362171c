"""When to look at files: after events of the file system, and now and then without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event

EVENTS_QUIET_MILLISECONDS = 50  # events that follow each other so closely are one
EVENTS_MILLISECONDS_MAX = 300  # after that they are looked at although more come
LOOK_SECONDS = 1.0  # without an event
LOOK_SOON_SECONDS = 0.1
POLL_SECONDS = 0.25
# File systems whose changes are made on other machines, or outside of a container.
WITHOUT_EVENTS = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "vboxsf", "fuse.sshfs", "fuse.osxfs")
)


def wakeups(
    folders: list[Path], *, is_busy: Callable[[], bool], poll: bool, stop: Event | None = None
) -> Iterator[None]:
    """Yields whenever files may have changed, until `stop` is set.

    Args:
        is_busy: whether to look again soon also without an event.
        poll: whether to look often instead of waiting for events.
    """
    stop = stop or Event()
    if poll or any(has_no_events(folder) for folder in folders):
        while not stop.wait(LOOK_SOON_SECONDS if is_busy() else POLL_SECONDS):
            yield
        return
    while not stop.is_set():
        yield
        try:
            yield from _after_events(folders, is_busy, stop)
        except OSError:  # no more watches, or a folder is gone: looking helps
            stop.wait(POLL_SECONDS)


def _after_events(folders: list[Path], is_busy: Callable[[], bool], stop: Event) -> Iterator[None]:
    import watchfiles

    quiet = 0.0  # seconds since the last look
    for changes in watchfiles.watch(
        *folders,
        watch_filter=None,
        debounce=EVENTS_MILLISECONDS_MAX,
        step=EVENTS_QUIET_MILLISECONDS,
        rust_timeout=int(LOOK_SOON_SECONDS * 1000),
        yield_on_timeout=True,
        stop_event=stop,
    ):
        quiet += LOOK_SOON_SECONDS
        if changes or is_busy() or quiet >= LOOK_SECONDS:
            quiet = 0.0
            yield


def has_no_events(folder: Path, mounts: Path = Path("/proc/mounts")) -> bool:
    """Whether a folder is on a file system that tells of no changes from elsewhere."""
    if os.environ.get("WATCHFILES_FORCE_POLLING"):
        return True
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return False
    found = [parts for line in lines if len(parts := line.split()) > 2 and _is_below(folder, parts)]
    return bool(found) and max(found, key=lambda parts: len(parts[1]))[2] in WITHOUT_EVENTS


def _is_below(folder: Path, mount: list[str]) -> bool:
    point = mount[1].replace("\\040", " ")
    return folder == Path(point) or Path(point) in folder.parents
