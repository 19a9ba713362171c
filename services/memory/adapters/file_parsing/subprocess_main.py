"""Runs as a program of its own: a file on stdin becomes text on stdout.

A file may be written so that reading it takes for ever, or all memory: then only this program ends.
What a person can do about a file that cannot be read goes to stderr, and the program ends with
`REFUSED`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import sys

REFUSED = 3
OUT_OF_MEMORY = 4
CPU_SECONDS_MAX = 60
MEMORY_BYTES_MAX = 768 << 20
DESCRIPTORS_MAX = 64


def confine() -> None:
    """Give up all that reading a file does not need: time, memory, files, processes, networks."""
    for what, most in (
        (resource.RLIMIT_CPU, CPU_SECONDS_MAX),
        (resource.RLIMIT_AS, MEMORY_BYTES_MAX),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, DESCRIPTORS_MAX),
    ):
        resource.setrlimit(what, (most, most))
    with contextlib.suppress(OSError, AttributeError):  # where the machine lets nobody do it
        os.unshare(os.CLONE_NEWUSER | os.CLONE_NEWNET)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
    sys.addaudithook(forbid)
    logging.getLogger().addHandler(logging.NullHandler())  # what is said is for a person


def forbid(event: str, _: tuple[object, ...]) -> None:
    """Refuse what no reader of files does."""
    if event.startswith(("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn")):
        raise PermissionError(f"{event} is not for who reads a file")


def main(kind: str) -> int:
    """Write the text of a file of this kind; returns how it ended."""
    from services.memory.adapters.file_parsing.formats import text_of
    from services.memory.adapters.file_parsing.unreadable import Unreadable

    out = sys.stdout.buffer
    try:
        with open(0, "rb", closefd=False) as file:
            for text in text_of(kind, file):
                out.write(text.encode("utf-8", "replace"))
        out.flush()
    except Unreadable as refused:
        return write_reason(str(refused), REFUSED)
    except RecursionError:
        words = "It is nested too deeply to be read: save it as plain text, and upload that"
        return write_reason(words, REFUSED)
    except MemoryError:
        return OUT_OF_MEMORY
    except BrokenPipeError:
        os.close(1)
        return REFUSED
    return 0


def write_reason(words: str, code: int) -> int:
    """Write to stderr why parsing failed, for a person; returns the exit status `code`."""
    sys.stderr.buffer.write(words.encode("utf-8", "replace"))
    return code


if __name__ == "__main__":
    confine()
    sys.exit(main(sys.argv[1]))
