"""`python -m deploy.containers up|down|status|logs|watch|psql|dump|restore|rebuild|wipe|wheels`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from deploy import database_dumps
from deploy.containers.project import Project
from deploy.database_dumps import PostgresPrograms
from deploy.embedded.settings import (
    DATABASE,
    LaunchError,
    Settings,
    read_settings,
    read_settings_of_home,
)

LOG_LINES = "20"


def main() -> int:
    arguments, rest = _parser().parse_known_args()
    if rest and arguments.command not in ("psql", "rebuild"):
        print(f"Unknown arguments: {' '.join(rest)}", file=sys.stderr)
        return 2
    try:
        read = read_settings if arguments.command == "up" else read_settings_of_home
        return _run(arguments, rest, read())
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace, rest: list[str], settings: Settings) -> int:
    from deploy.containers import up

    match arguments.command:
        case "up":
            return up.up(settings)
        case "down":
            return up.down(settings)
        case "status":
            return up.status(settings, as_json=arguments.json)
        case "wipe":
            return up.wipe(settings)
        case "wheels":
            return _wheels(clear=arguments.clear)
        case "watch":
            from deploy.embedded.watch import watch

            url = Project(settings).require_prepared().nats_watch_url
            shown = {"everything": arguments.all, "count": arguments.count}
            return asyncio.run(watch(url, **shown, correlation_id=arguments.request))
        case "dump":
            database_dumps.dump(_programs(settings), arguments.file)
            return 0
        case "restore":
            database_dumps.restore(_programs(settings), arguments.file)
            return 0
        case "rebuild":
            # In a container like that of the migration, which may reach the database as its owner.
            words = ["run", "--rm", "--no-deps", "--no-TTY", "migrate"]
            words += ["python", "-m", "deploy.rebuild"]
        case "logs":
            words = ["logs", "--follow", "--tail", LOG_LINES]
        case _:
            terminal = [] if sys.stdin.isatty() else ["--no-TTY"]
            words = ["exec", *terminal, "postgres", "psql", "--username", "postgres", "heeler"]
    return Project(settings).require_prepared().replace_with(*words, *rest)


def _programs(settings: Settings) -> PostgresPrograms:
    project = Project(settings).require_prepared()
    where = ["--username=postgres", f"--dbname={DATABASE}"]
    return PostgresPrograms(
        lambda name: project.compose("exec", "--no-TTY", "postgres", name, *where),
        project.environment(),
    )


def _wheels(*, clear: bool) -> int:
    from deploy.containers import wheels
    from deploy.containers.engine import require_engine

    if clear:
        wheels.clear()
        print(f"Emptied {wheels.WHEELS}: the images are built from the package index.")
        return 0
    require_engine()
    print(f"{wheels.fill()} packages are in {wheels.WHEELS}: the images are built from them.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.containers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="build, start, wait until all is healthy, return")
    commands.add_parser("down", help="stop; nothing happens when it is not running")
    status = commands.add_parser("status", help="one row per part; exit code 0 if all is healthy")
    status.add_argument("--json", action="store_true")
    watch = commands.add_parser("watch", help="print the messages on the bus")
    watch.add_argument("--all", action="store_true", help="commands and deltas too")
    watch.add_argument("--count", type=int, help="stop after this many messages")
    watch.add_argument("--request", help="only what belongs to this request, by correlation id")
    commands.add_parser("logs", help="follow the logs")
    commands.add_parser("psql", help="open psql; further arguments are handed to it")
    dump = commands.add_parser("dump", help="write the database into a file, while it serves")
    restore = commands.add_parser("restore", help="fill the database of a new home from a dump")
    for command in (dump, restore):
        command.add_argument("file", type=Path)
    commands.add_parser(
        "rebuild", add_help=False, help="rebuild the read models from the events, while it serves"
    )
    commands.add_parser("wipe", help="stop and delete the data")
    wheels = commands.add_parser("wheels", help="download the packages of the images")
    wheels.add_argument("--clear", action="store_true", help="delete them instead")
    return parser


if __name__ == "__main__":
    sys.exit(main())
