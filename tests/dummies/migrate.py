"""Makes the roles that the stand-ins connect with."""

import json
import os

import psycopg
from psycopg import sql

passwords: dict[str, str] = json.loads(os.environ["HEELER_SERVICE_PASSWORDS"])
with psycopg.connect(os.environ["HEELER_ADMIN_DATABASE_URL"], autocommit=True) as connection:
    for name, password in passwords.items():
        role = sql.Identifier(f"heeler_{name}")
        known = connection.execute("select from pg_roles where rolname = %s", [f"heeler_{name}"])
        if known.fetchone() is None:
            connection.execute(sql.SQL("create role {} login").format(role))
        statement = sql.SQL("alter role {} password {}").format(role, sql.Literal(password))
        connection.execute(statement)
