"""How much of the processor something takes. It is done in a process with a limit: code that is
slow fails a test, and does not hold it up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from libs.work.fork_server import ProcessLimits
from libs.work.limited_processes import LimitedProcesses

SECONDS_MAX = 10
MEMORY_BYTES_MAX = 4 << 30


def processor_seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """What a call takes of the processor, in seconds. Raises LimitReached where it takes more than
    10, and what the function raises. The function stands in a module that can be imported."""
    processes = processes_with(function.__module__)
    limits = ProcessLimits(SECONDS_MAX, MEMORY_BYTES_MAX)
    return asyncio.run(processes.run(timed, function, arguments, org="tests", limits=limits))


@cache
def processes_with(module: str) -> LimitedProcesses:
    """What the functions of a module are called in; it ends with the tests."""
    return LimitedProcesses(module)


def timed(function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """What a call takes here."""
    begin = time.process_time()
    function(*arguments)
    return time.process_time() - begin
