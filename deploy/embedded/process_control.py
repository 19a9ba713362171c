"""What a process asks the kernel for by prctl(2), which only Linux has."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ctypes import c_uint32, c_uint64
from pathlib import Path

IS_LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PR_SET_MM, PR_SET_MM_MAP = 35, 14
UNCHANGED = 0xFFFFFFFF
# The fields of prctl_mm_map with those of /proc/self/stat that they are read from (proc(5)).
STAT_FIELDS = {
    **{"start_code": 26, "end_code": 27, "start_data": 45, "end_data": 46, "start_brk": 47},
    **{"brk": 47, "start_stack": 28, "arg_start": 48, "arg_end": 49, "env_start": 50},
    **{"env_end": 51},
}
# Loaded before any fork: the child may not load libraries between fork and exec.
_LIBC = ctypes.CDLL(None, use_errno=True) if IS_LINUX else None
_adoptions = 0  # how many of this process are under way
_shown: list[ctypes.Array[ctypes.c_char]] = []  # what the kernel reads from now on


def prctl(option: int, *arguments: object) -> bool:
    """Whether the kernel did what it was asked for."""
    return _LIBC is not None and _LIBC.prctl(option, *arguments, *[0] * (4 - len(arguments))) == 0


def die_with(parent: int, orphan_signal: signal.Signals) -> None:
    """Have the kernel send this process a signal when its parent dies, and end if that is another
    by now. A change of account clears the setting."""
    prctl(PR_SET_PDEATHSIG, int(orphan_signal))
    if os.getppid() != parent:
        os._exit(1)


@contextmanager
def adopting() -> Iterator[bool]:
    """Meanwhile this process becomes the parent of those of its descendants whose parent ends, if
    the kernel lets it."""
    global _adoptions
    _adoptions += 1
    try:
        yield prctl(PR_SET_CHILD_SUBREAPER, 1)
    finally:
        _adoptions -= 1
        if not _adoptions:
            prctl(PR_SET_CHILD_SUBREAPER, 0)


class MemoryMap(ctypes.Structure):
    """The `prctl_mm_map` of Linux: where the parts of a process lie in its memory."""

    _fields_ = (
        *((name, c_uint64) for name in STAT_FIELDS),
        *(("auxv", c_uint64), ("auxv_size", c_uint32), ("exe_fd", c_uint32)),
    )


def show_as(argv: Iterable[str], environment: Iterable[tuple[str, str]]) -> None:
    """Show another command line and environment of this process in /proc, and so in `ps`. A kernel
    that does not allow it shows the old ones."""
    if _LIBC is None:
        return
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    places = {name: int(stat[number - 3]) for name, number in STAT_FIELDS.items()}
    _LIBC.sbrk.restype = ctypes.c_void_p
    places["brk"] = _LIBC.sbrk(0)
    texts = {"arg": argv, "env": (f"{name}={value}" for name, value in environment)}
    for prefix, words in texts.items():
        shown = b"".join(os.fsencode(word) + b"\0" for word in words)
        _shown.append(buffer := ctypes.create_string_buffer(shown, len(shown) or 1))
        places[f"{prefix}_start"] = ctypes.addressof(buffer)
        places[f"{prefix}_end"] = ctypes.addressof(buffer) + len(shown)
    memory = MemoryMap(**places, exe_fd=UNCHANGED)
    prctl(PR_SET_MM, PR_SET_MM_MAP, ctypes.byref(memory), ctypes.sizeof(memory))
