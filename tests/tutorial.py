"""Runs the commands of the tutorial as a new user would: `python -m tests.tutorial FOLDER`."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HEREDOC = re.compile(r"<<'(\w+)'")


def commands(page: Path = PAGE) -> Iterator[str]:
    """The commands of the page, one after the other; a here-document belongs to its command."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        lines = iter(block.splitlines())
        for line in lines:
            command = [line]
            if found := HEREDOC.search(line):
                for inner in lines:
                    command.append(inner)
                    if inner == found[1]:
                        break
            yield "\n".join(command)


def run(folder: Path, environment: dict[str, str]) -> Iterator[tuple[str, str, float]]:
    """Run each command in a checkout. Gives it, what it printed, and the seconds it took.

    Raises CalledProcessError where one fails.
    """
    for command in commands():
        began = time.monotonic()
        ended = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if ended.returncode:
            raise subprocess.CalledProcessError(ended.returncode, command, ended.stdout)
        yield command, ended.stdout, time.monotonic() - began


def main() -> int:
    """Print each command with what it says; the last line is how long all took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a checkout")
    began = time.monotonic()
    first_answer = None
    try:
        for command, printed, seconds in run(parser.parse_args().folder, {**os.environ}):
            print(f"$ {command}\n{printed}[{seconds:.1f} s]", flush=True)
            if first_answer is None and "agents send" in command:
                first_answer = time.monotonic() - began
    except subprocess.CalledProcessError as problem:
        print(f"$ {problem.cmd}\n{problem.output}exit code {problem.returncode}", file=sys.stderr)
        return 1
    print(f"first answer after {first_answer:.0f} s, all after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
