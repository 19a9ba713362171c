"""`python -m deploy.embedded up|down|status|watch|run|check|psql|dump|restore|rebuild|wipe`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sys
from pathlib import Path

from deploy import database_dumps
from deploy.embedded import postgres_location, supervisor
from deploy.embedded.database_access import database_url, postgres_programs
from deploy.embedded.encryption_keys import KEYS_FILE
from deploy.embedded.service_commands import PACKAGES_FOLDER, WORKSPACES_FOLDER
from deploy.embedded.settings import (
    LaunchError,
    Settings,
    launch_configuration,
    read_settings,
    read_settings_of_home,
)
from deploy.embedded.state import require_running
from deploy.embedded.up import down, up

HOME_ENTRIES = (
    *("postgres", "postgres.new", "nats", "logs", WORKSPACES_FOLDER, PACKAGES_FOLDER),
    *("state.json", "configuration.json", "ports.json", "secrets.json", KEYS_FILE, "lock"),
    postgres_location.POINTER,
)


def main() -> int:
    arguments, rest = _parser().parse_known_args()
    if rest and arguments.command not in ("psql", "rebuild"):
        print(f"Unknown arguments: {' '.join(rest)}", file=sys.stderr)
        return 2
    try:
        read = read_settings if arguments.command in ("up", "run") else read_settings_of_home
        return _run(arguments, rest, read())
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"No access to {error.filename}: it belongs to somebody else.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _run(arguments: argparse.Namespace, rest: list[str], settings: Settings) -> int:
    match arguments.command:
        case "up":
            return up(settings)
        case "down":
            return down(settings)
        case "run":
            return supervisor.main(settings)
        case "check":
            return _check(tries=arguments.sandbox)
        case "status":
            from deploy.embedded.status import status

            return status(settings, as_json=arguments.json)
        case "watch":
            from deploy.embedded.watch import watch

            url = require_running(settings.home).urls["nats_watch"]
            shown = {"everything": arguments.all, "count": arguments.count}
            return asyncio.run(watch(url, **shown, correlation_id=arguments.request))
        case "psql":
            return _psql(settings, rest)
        case "dump":
            database_dumps.dump(postgres_programs(settings), arguments.file)
            return 0
        case "restore":
            database_dumps.restore(postgres_programs(settings), arguments.file)
            return 0
        case "rebuild":
            return _rebuild(settings, rest)
        case _:
            return _wipe(settings)


def _check(*, tries: bool) -> int:
    """Print what the services would refuse in this environment, a line for each problem, and why no
    call ends well in the sandbox, if that is tried."""
    from deploy.doctor.trial_checks import sandbox_problems  # these are slow to import
    from deploy.embedded.service_settings import setting_problems

    configuration = launch_configuration()
    problems = setting_problems(configuration)
    if tries and not problems:
        problems = sandbox_problems(configuration)
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def _psql(settings: Settings, rest: list[str]) -> int:
    programs = postgres_programs(settings)
    command = [*programs.command("psql"), *rest]
    os.execve(command[0], command, dict(programs.environment))


def _rebuild(settings: Settings, rest: list[str]) -> int:
    """Needs Postgres, so Heeler must run; it goes on serving."""
    from deploy import rebuild

    if "--help" not in rest and "-h" not in rest:
        os.environ["HEELER_ADMIN_DATABASE_URL"] = database_url(settings)
    return rebuild.main(rest)


def _wipe(settings: Settings) -> int:
    """Stop, then delete what Heeler keeps in the state folder: all agents are gone."""
    down(settings)
    inside = [settings.home / name for name in HOME_ENTRIES]
    outside = postgres_location.folders_outside(settings.home) if os.geteuid() == 0 else []
    for path in (*inside, *outside):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # gone already, or it holds files of the user's own
        settings.home.rmdir()
    print(f"Deleted the data in {settings.home}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start, wait until all is healthy, return")
    commands.add_parser("down", help="stop; nothing happens when it is not running")
    commands.add_parser("run", help="supervise in the foreground")
    check = commands.add_parser("check", help="say what the services would refuse of the settings")
    check.add_argument("--sandbox", action="store_true", help="try the sandbox that is named")
    status = commands.add_parser("status", help="one row per part; exit code 0 if all is healthy")
    status.add_argument("--json", action="store_true")
    watch = commands.add_parser("watch", help="print the messages on the bus")
    watch.add_argument("--all", action="store_true", help="commands and deltas too")
    watch.add_argument("--count", type=int, help="stop after this many messages")
    watch.add_argument("--request", help="only what belongs to this request, by correlation id")
    commands.add_parser("psql", help="open psql; further arguments are handed to it")
    dump = commands.add_parser("dump", help="write the database into a file, while it serves")
    restore = commands.add_parser("restore", help="fill the database of a new home from a dump")
    for command in (dump, restore):
        command.add_argument("file", type=Path)
    commands.add_parser(
        "rebuild", add_help=False, help="rebuild the read models from the events, while it serves"
    )
    commands.add_parser("wipe", help="stop and delete the state folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
