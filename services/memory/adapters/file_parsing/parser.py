"""Have a file read by a program of its own, in bounds of time, memory and text."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import IO

from services.memory.adapters.file_parsing.subprocess_main import (
    CPU_SECONDS_MAX,
    OUT_OF_MEMORY,
    REFUSED,
)

ROOT = Path(__file__).parents[4]
PROGRAM = "services.memory.adapters.file_parsing.subprocess_main"
PARSE_SECONDS_MAX = 180.0
READ_BYTES = 64 * 1024
WORDS_BYTES_MAX = 4_000
TOO_LONG = (
    f"Reading it takes more than {CPU_SECONDS_MAX} seconds: save it anew as a simpler file, or"
    " upload it in parts"
)
TOO_MUCH_MEMORY = "Reading it takes too much memory: upload it in parts, or as plain text"


class Unparsable(Exception):
    """A file that cannot be read; the words say what a person can do about that."""


class ProcessParser:
    """Makes texts of files: each file is read by a program that ends with it."""

    async def parse(self, kind: str, file: IO[bytes]) -> AsyncGenerator[str]:
        """The text of a file, little by little. Raises Unparsable."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", PROGRAM, kind),
            stdin=file.fileno(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={"PATH": os.defpath, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"},
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        words = asyncio.ensure_future(words_of(process.stderr))
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        try:
            async with asyncio.timeout(PARSE_SECONDS_MAX):
                while raw := await process.stdout.read(READ_BYTES):
                    yield decoder.decode(raw)
                code = await process.wait()
                why = (await words).decode("utf-8", "replace").strip()
            yield decoder.decode(b"", final=True)
        except TimeoutError:
            raise Unparsable(TOO_LONG) from None
        finally:
            words.cancel()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        check(code, why)


async def words_of(stream: asyncio.StreamReader) -> bytes:
    """The end of what a program says, until it says no more."""
    words = b""
    while said := await stream.read(WORDS_BYTES_MAX):
        words = (words + said)[-WORDS_BYTES_MAX:]
    return words


def check(code: int, why: str) -> None:
    """Raise Unparsable where the program did not end well."""
    if code == REFUSED:
        raise Unparsable(why or "It cannot be read: save it anew, and upload that")
    if code == OUT_OF_MEMORY or "MemoryError" in why:
        raise Unparsable(TOO_MUCH_MEMORY)
    if code < 0:
        raise Unparsable(TOO_LONG)
    if code:
        last = why.splitlines()[-1][:200] if why else f"code {code}"
        raise Unparsable(f"It cannot be read ({last}): save it anew, and upload that")
