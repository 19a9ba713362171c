"""Put a recorded home into the empty home of a Heeler that was never started."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import psycopg

from deploy.embedded import postgres_location
from deploy.embedded.postgres_server import Postgres, wheel_tree
from deploy.embedded.settings import DATABASE
from deploy.embedded.state import choose_ports, open_secrets
from tests.homes import DUMP, FOLDER
from tests.servers import PostgresServer

ROLES = ("heeler_reader", "heeler_agent", "heeler_memory", "heeler_api")


class PostgresOfHome(PostgresServer):
    """The Postgres that a home will be started with."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._process = None
        self.server: Postgres = postgres_location.place(
            home,
            log_file=home / "postgres.log",
            port=choose_ports(home)["postgres"],
            password=open_secrets(home).postgres_password,
        )


def restore(home: Path, name: str) -> None:
    """Fill the database of a new home as it was recorded, with the rights that it gave."""
    postgres = PostgresOfHome(home).start()
    try:
        url = postgres.create_database(DATABASE)
        with psycopg.connect(url, autocommit=True) as connection:
            for role in ROLES:
                connection.execute(f"create role {role}".encode())
        text = gzip.decompress((FOLDER / name / DUMP).read_bytes())
        psql = [str(wheel_tree() / "bin" / "psql"), "--quiet", "-v", "ON_ERROR_STOP=1", url]
        subprocess.run(psql, input=text, check=True, stdout=subprocess.DEVNULL)
    finally:
        postgres.stop()
