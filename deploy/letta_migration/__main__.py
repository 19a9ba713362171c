"""`python -m deploy.letta_migration postgres://...`: see `docs/moving-in.md`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import psycopg

from deploy.embedded.encryption_keys import KEYS_FILE
from deploy.embedded.settings import LaunchError, read_settings
from deploy.letta_migration.migration import Migration
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Opener
from deploy.letta_migration.target import Target, TargetProblem
from deploy.letta_migration.versions import UnknownDatabase
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.encryption.sealer import Sealer

FOLDER = "letta-migration"


def arguments_of() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="make migrate-letta FROM=postgres://...",
        description="Take over the agents of a Letta server 0.16.x from its Postgres database.",
    )
    parser.add_argument("source", help="the address of the old server's database")
    parser.add_argument("--to", help="the address of this server (as `make up` says)")
    parser.add_argument("--organisation", help="which one, where there are several: id or name")
    parser.add_argument("--dry-run", action="store_true", help="read and report, send nothing")
    parser.add_argument("--last", action="store_true", help="the old server has stopped: end runs")
    parser.add_argument("--file", type=Path, help="write an agent file instead of sending it")
    parser.add_argument("--json", action="store_true", help="report as JSON")
    parser.add_argument("--state", type=Path, help="the folder that remembers what was taken over")
    parser.add_argument(
        "--unencrypted", action="store_true", help="the old server had no LETTA_ENCRYPTION_KEY"
    )
    return parser


def sealer_of(home: Path) -> Sealer | None:
    """The sealer of secrets for this server; None where its keys are not on this machine."""
    keys = os.environ.get(ENCRYPTION_KEYS)
    if not keys and (home / KEYS_FILE).exists():
        keys = ",".join((home / KEYS_FILE).read_text(encoding="ascii").split())
    return Sealer.from_environment({ENCRYPTION_KEYS: keys}) if keys else None


def main() -> int:
    """Run a migration; returns the exit code."""
    arguments = arguments_of().parse_args()
    try:
        settings = read_settings()
        migration = Migration(
            source=arguments.source,
            organisation=arguments.organisation,
            folder=arguments.state or settings.home / FOLDER,
            target=Target(arguments.to or settings.api_url, os.environ.get("LETTA_API_KEY")),
            opener=Opener(
                os.environ.get("LETTA_ENCRYPTION_KEY"), assume_plain=arguments.unencrypted
            ),
            sealer=sealer_of(settings.home),
            is_last=arguments.last,
            tell=lambda text: print(text, file=sys.stderr),
        )
        report = run(migration, arguments)
    except (UnknownDatabase, TargetProblem, LaunchError) as problem:
        print(problem, file=sys.stderr)
        return 1
    except psycopg.Error as problem:
        print(f"The database of the old server: {problem}", file=sys.stderr)
        return 1
    print(json.dumps(report.as_json(), indent=2) if arguments.json else report.as_text())
    return 0


def run(migration: Migration, arguments: argparse.Namespace) -> Report:
    """Do what was asked for."""
    if arguments.dry_run:
        return migration.dry_run()
    return migration.write(arguments.file) if arguments.file else migration.run()


if __name__ == "__main__":
    sys.exit(main())
