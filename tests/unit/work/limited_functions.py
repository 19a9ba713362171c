"""Functions that are called in processes of their own."""

import os
import time


def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def spin() -> None:
    """Take the processor for ever."""
    while True:
        pass


def take_memory(count: int) -> int:
    """Take so many bytes of memory."""
    return len(bytearray(count))


def refuse() -> None:
    """Raise what a reader of bad text raises."""
    raise ValueError("line 3 is wrong")


def environment() -> dict[str, str]:
    """The variables that the process has."""
    return {**os.environ}


def write_pid_and_wait(path: str) -> None:
    """Write the id of the process to a file, and never return."""
    with open(path, "w") as file:
        file.write(str(os.getpid()))
    while True:
        time.sleep(60)


class Unrepeatable(Exception):
    """An exception that cannot be made again from what it was made of."""

    def __init__(self, line: int, *, column: int) -> None:
        super().__init__(f"line {line}, column {column}")


def raise_unrepeatable() -> None:
    """Raise what cannot be sent to another process."""
    raise Unrepeatable(3, column=7)


def nest() -> list[object]:
    """A list that is nested too deeply to be sent to another process."""
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    return nested
