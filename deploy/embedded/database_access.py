"""Access of a person's programs to the database of a running instance, as its superuser."""

from __future__ import annotations

import os

from deploy.database_dumps import PostgresPrograms
from deploy.embedded import postgres_server
from deploy.embedded.settings import Settings
from deploy.embedded.state import require_running


def database_url(settings: Settings) -> str:
    """The address of the database, with its password. Raises LaunchError if nothing runs."""
    return require_running(settings.home).urls["database"]


def postgres_programs(settings: Settings) -> PostgresPrograms:
    """`psql`, `pg_dump` and `pg_restore` with it. Raises LaunchError if nothing runs."""
    folder = postgres_server.wheel_tree() / "bin"
    url, password = postgres_server.without_password(database_url(settings))
    # A command line can be read by everybody.
    environment = {**os.environ, "PGPASSWORD": password}
    return PostgresPrograms(lambda name: [str(folder / name), "--dbname", url], environment)
