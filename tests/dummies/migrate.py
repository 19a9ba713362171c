"""Makes the roles that the stand-ins connect with, and the streams that bring them commands."""

import asyncio
import json
import os

import nats
import psycopg
from psycopg import sql

from libs.bus.jetstream import commands_consumer, declare_streams
from libs.contracts.service_registry import names
from libs.contracts.stream_definitions import COMMANDS_STREAM


async def declare(url: str) -> None:
    await declare_streams(url)
    client = await nats.connect(url)
    for name in names():
        await client.jetstream().add_consumer(COMMANDS_STREAM, commands_consumer(name))
    await client.close()


asyncio.run(declare(os.environ["HEELER_NATS_URL"]))

passwords: dict[str, str] = json.loads(os.environ["HEELER_SERVICE_PASSWORDS"])
with psycopg.connect(os.environ["HEELER_ADMIN_DATABASE_URL"], autocommit=True) as connection:
    for name, password in passwords.items():
        role = sql.Identifier(f"heeler_{name}")
        known = connection.execute("select from pg_roles where rolname = %s", [f"heeler_{name}"])
        if known.fetchone() is None:
            connection.execute(sql.SQL("create role {} login").format(role))
        statement = sql.SQL("alter role {} password {}").format(role, sql.Literal(password))
        connection.execute(statement)
