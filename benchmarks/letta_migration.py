"""How fast a large database of a Letta server is read, and what that takes in memory.

`python -m benchmarks.letta_migration` gives an agent of the recorded database 100,000 messages, and
prints messages per second and the memory at its highest.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import time
from contextlib import closing
from datetime import UTC, datetime

import psycopg

from benchmarks.cpu import roots_of_home
from benchmarks.memory import measured
from deploy.letta_migration.lines import Pass, encode_pass
from deploy.letta_migration.progress import Progress
from deploy.letta_migration.report import Report
from deploy.letta_migration.secrets import Opener
from deploy.letta_migration.source import LettaDatabase, organisation_of
from tests.letta_database import load
from tests.servers import HeelerInstance, PostgresServer

AGENT = "agent-167b2b4b-a0b8-47b1-85d7-4a62e5c2b23c"
FILL = """
insert into runs (id, status, background, agent_id, organization_id, created_at, updated_at,
                  completed_at, stop_reason, is_deleted, metadata_, request_config)
select 'run-' || gen_random_uuid(), 'completed', false, agents.id, organization_id,
       now() + number * interval '1 second', now(), now(), 'end_turn', false, '{}', '{}'
from agents, generate_series(1, %(runs)s) number where agents.id = %(agent)s;
insert into messages (id, agent_id, organization_id, role, content, tool_calls, created_at,
                      is_deleted, run_id, otid)
select 'message-' || gen_random_uuid(), r.agent_id, r.organization_id,
       case when half = 1 then 'user' else 'assistant' end,
       json_build_array(json_build_object('type', 'text', 'text', repeat('Some words. ', 18))),
       '[]', r.created_at + half * interval '1 millisecond', false, r.id, gen_random_uuid()::text
from (select * from runs where metadata_::text = '{}' order by created_at) r,
     generate_series(1, 2) half;
insert into steps (id, run_id, agent_id, organization_id, created_at, is_deleted, prompt_tokens,
                   completion_tokens, total_tokens, model, status)
select 'step-' || gen_random_uuid(), id, agent_id, organization_id, created_at, false, 10, 5, 15,
       'gpt-4o-mini', 'SUCCESS'
from runs where metadata_::text = '{}';
"""


def fill(url: str, messages: int) -> None:
    """Give an agent so many messages, two for each run."""
    with psycopg.connect(url) as connection:
        for statement in FILL.split(";\n"):
            if statement.strip():
                connection.execute(statement, {"agent": AGENT, "runs": messages // 2})
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("analyze")


def read(url: str) -> tuple[int, int, float]:
    """Read everything once; returns the messages, the bytes of the lines, and the seconds."""
    began = time.perf_counter()
    size = 0
    with LettaDatabase(url) as database:
        org = organisation_of(database, None)
        passed = Pass(database, org, Progress(), Report(), Opener(None), None, is_last=True)
        for line in encode_pass(passed, "benchmark", datetime.now(UTC)):
            size += len(line)
        messages = database.count("messages")
    return messages, size, time.perf_counter() - began


def migrate(url: str, instance: HeelerInstance) -> float:
    """Move a database into a server; returns the seconds."""
    began = time.perf_counter()
    subprocess.run(
        [instance.python, "-m", "deploy.letta_migration", url, "--last", "--json"],
        cwd=instance.checkout,
        env=instance.environment(),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - began


def measure_server(messages: int) -> None:
    """Move a filled database into a server of our own, and print what that took."""
    with HeelerInstance() as instance:
        with psycopg.connect(instance.database_url, autocommit=True) as connection:
            connection.execute("create database letta_old")
        url = instance.database_url.replace("/heeler", "/letta_old")
        load(url)
        fill(url, messages)
        roots = roots_of_home(instance.home)()
        before = measured(roots)
        seconds = migrate(url, instance)
        after = measured(roots)
    print(f"{messages} messages moved in {seconds:.1f} s: {messages / seconds:.0f} per second")
    for name, size in after.items():
        print(f"{name:<12} {size / 1e6:7.0f} MB, {(size - before.get(name, 0)) / 1e6:+.0f} since")


def main() -> None:
    """Fill a database, read it, and print what that took; with --server, move it in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--server", action="store_true", help="move it into a server, too")
    arguments = parser.parse_args()
    with closing(PostgresServer()) as server:
        server.start()
        url = server.create_database("letta")
        load(url)
        fill(url, arguments.messages)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        messages, size, seconds = read(url)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{messages} messages read in {seconds:.1f} s: {messages / seconds:.0f} per second")
    print(
        f"{size / 1e6:.0f} MB of lines; memory {before // 1024} MB before, {after // 1024} at most"
    )
    if arguments.server:
        measure_server(arguments.messages)


if __name__ == "__main__":
    main()
