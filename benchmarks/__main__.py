"""python -m benchmarks: measure a server that speaks the Letta V1 REST API."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import uvloop

from benchmarks import checkpoints, tool_permissions
from benchmarks.agents import RunFailed
from benchmarks.driver import ROWS, Options, run
from benchmarks.rows import CONCURRENCIES


def chosen_rows(text: str) -> list[str]:
    """Rows by name (`message-8`) or by kind (`message`), in the order of the table."""
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in ROWS and name not in CONCURRENCIES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no row {unknown[0]!r}; there are {', '.join(ROWS)}")
    return [row for row in ROWS if row in names or row.partition("-")[0] in names]


def positive_seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError("must be more than 0")
    return seconds


def read_options(words: Sequence[str] | None = None) -> Options:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--base-url",
        metavar="URL",
        help="a running server; without it, a Heeler of our own in a temporary home. An API key "
        "is read from LETTA_API_KEY",
    )
    parser.add_argument(
        "--pid",
        dest="pids",
        type=int,
        action="append",
        default=[],
        help="a process of that server, its children included; may be repeated",
    )
    parser.add_argument(
        "--only",
        dest="rows",
        type=chosen_rows,
        default=ROWS,
        metavar="NAME,...",
        help=f"rows or kinds: {', '.join(ROWS)}",
    )
    parser.add_argument("--seconds", type=positive_seconds, default=5.0, help="for each row")
    parser.add_argument("--model", default=Options.model, metavar="HANDLE")
    parser.add_argument("--embedding", default=Options.embedding, metavar="HANDLE")
    parser.add_argument("--json", dest="json_file", type=Path, metavar="FILE")
    parser.add_argument(
        "--against",
        type=Path,
        metavar="FILE",
        help="the --json file of another server, to judge the goals that are ratios",
    )
    options = Options(**vars(parser.parse_args(words)))
    if options.pids and not options.base_url:
        parser.error("--pid belongs to --base-url; the processes of an own instance are known")
    return options


def main(words: Sequence[str] | None = None) -> int:
    options = read_options(words)
    # Leaving the bus is no news at the end of a table.
    logging.getLogger("libs.bus").setLevel(logging.ERROR)
    try:
        good = uvloop.run(run(options))
        if not options.base_url:
            good = tool_permissions.report() and good
            good = checkpoints.report() and good
        return 0 if good else 1
    except RunFailed as problem:
        print(f"python -m benchmarks: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
