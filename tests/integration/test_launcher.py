"""The launcher with stand-in services: what `make up` promises, and what survives a kill."""

from __future__ import annotations

import asyncio
import errno
import http.server
import json
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nats
import psutil
import psycopg
import pytest

from deploy.embedded import postgres_account, supervised_process
from deploy.embedded.api_health import read_health
from deploy.embedded.postgres_server import buffers_mb, memory_bytes
from deploy.embedded.process_activity import OwnTime
from deploy.embedded.settings import ALL_SERVICES, PARTS, SERVICES, LaunchError, read_settings
from deploy.embedded.state import PartState, ProcessMark, free_port, open_secrets, write_state
from deploy.embedded.subprocesses import LOG_BYTES_MAX, Command, rotate, spawn
from deploy.embedded.supervised_process import Backoff, Look, Missing
from libs.contracts.nats_permissions import ADMIN, inbox_prefix
from libs.encryption.sealing_keys import new_key
from tests.chosen import new_nats
from tests.heeler_command import HeelerCommand
from tests.servers import HeelerInstance, NatsServer, PostgresServer, wait_until
from tests.waiting import in_time, wait_for

NO_ORGANISATION = "nobody"  # with which no stand-in of tests/dummies starts
DUMMIES = {
    "HEELER_PROCESSES": "each",
    "HEELER_SERVICES_PACKAGE": "tests.dummies",
    "HEELER_MIGRATIONS_MODULE": "tests.dummies.migrate",
}


@pytest.fixture(scope="module")
def heeler() -> Iterator[HeelerInstance]:
    with HeelerInstance(env=DUMMIES) as instance:
        yield instance


def test_up_prints_where_everything_is_and_status_agrees(heeler: HeelerInstance) -> None:
    output = heeler.up()

    assert f"already up: {heeler.base_url}" in output
    assert "make watch" in output
    assert not [password for password in passwords_of(heeler) if password in output]
    assert f"{heeler.base_url}/openapi" in output
    status = heeler.status()
    assert status["healthy"] is True
    assert {row["state"] for row in status["parts"].values()} == {"ok"}
    assert {status["parts"][name]["pid"] for name in PARTS} == {heeler.pid(n) for n in PARTS}
    table = heeler.command("status")
    assert table.returncode == 0
    assert "restarts" in table.stdout
    password = json.loads((heeler.home / "secrets.json").read_text())["postgres_password"]
    assert password not in table.stdout


def passwords_of(heeler: HeelerInstance) -> list[str]:
    secrets = open_secrets(heeler.home)
    own = [secrets.postgres_password, *secrets.service_passwords.values()]
    return [*own, *secrets.of_nats.values()]


def test_what_is_in_the_home_is_for_the_owner_only(heeler: HeelerInstance) -> None:
    found = [heeler.home, *heeler.home.rglob("*")]
    names = {path.name for path in found}
    assert {"secrets.json", "encryption.keys", "state.json", "nats.conf"} <= names
    assert {"supervisor.log", "nats.log"} <= names
    assert heeler.home.stat().st_mode & 0o777 == 0o700
    for path in found:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_configuration_is_loaded_anew_or_all_stays_as_it_was(
    heeler: HeelerInstance, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    command = HeelerCommand(monkeypatch, tmp_path, None)
    monkeypatch.setenv("HEELER_HOME", str(heeler.home))
    file, before = heeler.home / "heeler.toml", {name: heeler.pid(name) for name in PARTS}

    def run_seconds() -> str | None:
        return psutil.Process(heeler.pid("agent")).environ().get("HEELER_RUN_SECONDS_MAX")

    file.write_text("runs.seconds_max = 61\n")
    note = "The server runs with other values of runs.seconds_max: heeler config reload"
    assert note in command("config", "show").err
    applied = command.json("config", "reload")["reloads"][-1]
    assert (applied["status"], applied["replaced"]) == ("applied", ["agent"])
    assert run_seconds() == "61"
    assert note not in command("config", "show").err

    file.write_text("runs.seconds_max = 0\n")
    refused = command.run("config", "reload")
    assert (refused.code, refused.out) == (4, f"refused, version {applied['version']}\n")
    assert f"{file}:1: runs.seconds_max: HEELER_RUN_SECONDS_MAX is '0'" in refused.err

    file.write_text(f"runs.seconds_max = 62\nmodels.openai.organization = '{NO_ORGANISATION}'\n")
    failed = command.run("config", "reload")
    assert (failed.code, failed.out) == (1, f"rolled_back, version {applied['version']}\n")
    assert "agent ended at its start, with 1: OPENAI_ORG_ID is nobody" in failed.err
    assert run_seconds() == "61"
    after = {name: heeler.pid(name) for name in PARTS}
    assert {name for name in PARTS if after[name] != before[name]} == {"agent"}
    assert heeler.status()["healthy"]

    file.unlink()
    command("config", "reload")
    assert run_seconds() is None


def test_strangers_are_refused(heeler: HeelerInstance) -> None:
    port = heeler.state().ports["postgres"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://postgres:guess@127.0.0.1:{port}/heeler")


SECRETS_OF = {
    "OPENAI_API_KEY": {"agent", "memory"},  # which embeds
    "ANTHROPIC_API_KEY": {"agent"},
    "https_proxy": {"agent"},
    "HEELER_PASSWORD": {"api"},
    "HEELER_ENCRYPTION_KEYS": {"api", "tools"},
    "LETTA_SERVER_PASSWORD": {"api"},
    "OTEL_EXPORTER_OTLP_HEADERS": set(SERVICES),
    "AWS_SECRET_ACCESS_KEY": set(),
    "TZ": set(PARTS),
}


@pytest.mark.parametrize("processes", ["each", "one"])
def test_every_process_has_only_the_variables_that_it_reads(processes: str) -> None:
    mine = {name: f"mine of {name}" for name in SECRETS_OF}
    mine["HEELER_ENCRYPTION_KEYS"] = new_key()
    command = {**DUMMIES, **mine, "HEELER_PROCESSES": processes}
    if processes == "one":  # which runs the services themselves
        command |= {"HEELER_SERVICES_PACKAGE": "", "HEELER_MIGRATIONS_MODULE": ""}
    with HeelerInstance(env=command) as instance:
        found = {
            part: psutil.Process(state.mark.pid).environ()
            for part, state in instance.state().parts.items()
            if state.mark
        }
    for name, wanted in SECRETS_OF.items():
        if processes == "one":
            wanted = {part if part not in SERVICES else ALL_SERVICES for part in wanted}
        assert {part for part, given in found.items() if mine[name] in given.values()} == wanted


def test_nats_listens_on_one_port_and_it_wants_a_password(heeler: HeelerInstance) -> None:
    listening = [
        connection.laddr.port
        for connection in psutil.Process(heeler.pid("nats")).net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening == [heeler.state().ports["nats"]]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres to another account")
def test_postgres_has_an_account_of_its_own(heeler: HeelerInstance) -> None:
    if shutil.which("useradd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        pytest.skip("no account can be made here without useradd")
    assert psutil.Process(heeler.pid("postgres")).username() == postgres_account.NAME
    data = Path(heeler.psql("show data_directory")[0][0])
    assert (data.owner(), data.stat().st_mode & 0o777) == (postgres_account.NAME, 0o700)


def test_postgres_runs_with_our_settings(heeler: HeelerInstance) -> None:
    for name, value in {
        "max_connections": "120",
        "idle_in_transaction_session_timeout": "1min",
        "synchronous_commit": "on",
        "wal_level": "replica",
        "server_encoding": "UTF8",
        "fsync": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
    }.items():
        assert heeler.psql(f"show {name}") == [(value,)], name
    [(pages,)] = heeler.psql("select setting::int from pg_settings where name = 'shared_buffers'")
    assert pages * 8 // 1_024 == buffers_mb(memory_bytes(), little=False)


@pytest.mark.parametrize(
    ("gigabytes", "little", "kept"),
    [(1, False, 128), (8, False, 256), (32, False, 1_024), (512, False, 1_024), (32, True, 128)],
)
def test_postgres_keeps_a_share_of_the_memory(gigabytes: int, little: bool, kept: int) -> None:
    assert buffers_mb(gigabytes << 30, little=little) == kept


@pytest.mark.parametrize("name", PARTS)
async def test_a_killed_part_is_replaced_at_once_and_all_is_healthy_again(
    heeler: HeelerInstance, name: str
) -> None:
    heeler.wait_healthy()
    others = {other: heeler.pid(other) for other in PARTS if other != name}

    def lives() -> bool:
        alive = time.time() - psutil.Process(heeler.pid(name)).create_time()
        return alive > supervised_process.ALIVE_SECONDS_RESET + 0.5

    def replaced() -> float:
        wait_until("it lives long enough to be replaced at once", lives, 10.0)
        heeler.wait_healthy()
        killed = heeler.kill9(name)
        started = time.monotonic()
        heeler.wait_restarted(name, killed, 30.0)
        return time.monotonic() - started

    await in_time("it is replaced", replaced, 0.5)  # 0.2 s promised
    heeler.wait_healthy()
    assert {other: heeler.pid(other) for other in others} == others
    assert heeler.state().parts[name].restarts >= 1


async def test_watch_prints_one_line_per_message(heeler: HeelerInstance) -> None:
    heeler.wait_healthy()
    watching = heeler.popen("watch", "--count", "1")
    assert watching.stdout
    assert "watching" in watching.stdout.readline()
    client = await nats.connect(heeler.nats_url)
    await client.publish("agent.delta.run.token.org-1.run-1", b'{"text": "no"}')
    await client.publish("agent.event.run.started.org-1.run-1", b'{"run": "run-1"}')
    await client.close()

    lines, _ = watching.communicate(timeout=60)

    assert "agent.event.run.started.org-1.run-1" in lines
    assert '{"run": "run-1"}' in lines
    assert "delta" not in lines
    assert watching.returncode == 0


async def test_watch_shows_what_belongs_to_one_request(heeler: HeelerInstance) -> None:
    heeler.wait_healthy()
    watching = heeler.popen("watch", "--count", "1", "--request", "request-1")
    assert watching.stdout
    assert "watching" in watching.stdout.readline()
    client = await nats.connect(heeler.nats_url)
    for request in ("request-2", "request-1"):
        subject, headers = f"agent.event.run.started.org-1.{request}", {"correlation-id": request}
        await client.publish(subject, b"{}", headers=headers)
    await client.close()

    lines, _ = watching.communicate(timeout=60)

    assert "request-1" in lines
    assert "request-2" not in lines


async def test_a_second_replica_of_a_service_can_be_started_by_hand(
    heeler: HeelerInstance,
) -> None:
    heeler.wait_healthy()
    heeler.spawn_service("agent", {"DUMMY_WORD": "replica"})
    client = await nats.connect(heeler.nats_url, inbox_prefix=inbox_prefix(ADMIN))
    inbox = client.new_inbox()
    answers = await client.subscribe(inbox)
    words: set[bytes] = set()
    deadline = time.monotonic() + 60
    while words != {b"pong", b"replica"} and time.monotonic() < deadline:
        await client.publish("$SRV.PING.agent", b"", reply=inbox)
        words.add((await answers.next_msg(timeout=30)).data)
    await client.close()
    heeler.stop_replicas()

    assert words == {b"pong", b"replica"}


def test_with_two_replicas_each_part_of_a_pair_stands_in_for_the_other() -> None:
    with HeelerInstance(env={**DUMMIES, "HEELER_REPLICAS": "2"}) as instance:
        status = instance.status()
        pairs = [(service, f"{service}-2") for service in SERVICES]

        assert status["healthy"] is True
        assert set(status["parts"]) == {"supervisor", "postgres", "nats", *sum(pairs, ())}
        for pair in pairs:
            for name in pair:
                pid = instance.kill9(name)
                assert read_health("127.0.0.1", instance.port).code == 200
                instance.wait_restarted(name, pid)
                wait_until(f"{name} serves", lambda: starts(instance, name) == 2, 30)  # noqa: B023
            instance.wait_healthy()
        os.kill(instance.pid("api"), signal.SIGSTOP)
        codes = [read_health("127.0.0.1", instance.port).code for _ in range(10)]
        os.kill(instance.pid("api"), signal.SIGCONT)
        assert codes == [200] * 10


def starts(instance: HeelerInstance, part: str) -> int:
    """How often a stand-in said that it serves."""
    return instance.log(part).count('"started"')


@pytest.mark.parametrize("replicas", ["0", "17", "two"])
def test_an_impossible_number_of_replicas_is_refused(replicas: str) -> None:
    with pytest.raises(LaunchError, match="HEELER_REPLICAS"):
        read_settings({"HEELER_REPLICAS": replicas})


def test_two_homes_run_side_by_side(heeler: HeelerInstance) -> None:
    with HeelerInstance(env=DUMMIES) as other:
        assert heeler.is_healthy()
        other.psql("create table here (n int)")
        assert heeler.psql("select to_regclass('here')") == [(None,)]
        assert not set(heeler.state().ports.values()) & set(other.state().ports.values())
    assert heeler.is_healthy()


def test_a_taken_port_is_named_with_its_owner_and_a_way_out() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    instance = HeelerInstance(env=DUMMIES, port=server.server_address[1])
    try:
        done = instance.command("up")
    finally:
        server.shutdown()
        server.server_close()
        instance.close()

    assert done.returncode == 1
    assert f"127.0.0.1:{instance.port}: the port is taken by pid {os.getpid()}" in done.stderr
    assert f"make up HEELER_PORT={instance.port + 1}" in done.stderr


def test_another_heeler_on_the_port_is_recognised(heeler: HeelerInstance) -> None:
    heeler.wait_healthy()
    instance = HeelerInstance(env=DUMMIES, port=heeler.port)
    done = instance.command("up")
    instance.close()

    assert done.returncode == 1
    assert "another Heeler" in done.stderr


def test_a_home_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    instance = HeelerInstance(env=DUMMIES, home=tmp_path / "file" / "home")

    done = instance.command("up")

    assert done.returncode == 1
    assert "Cannot write to the state folder" in done.stderr
    assert "Traceback" not in done.stderr


async def test_data_survives_down_and_up_and_down_is_idempotent() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        instance.psql("create table kept as select 42 as n")
        ports = instance.state().ports
        pids = [instance.pid(name) for name in (*PARTS, "supervisor")]

        assert "stopped" in instance.down()
        assert "not running" in instance.down()

        assert not any(_runs(pid) for pid in pids)
        assert instance.command("status").returncode == 1

        def up() -> float:
            instance.down()
            started = time.monotonic()
            instance.up()
            return time.monotonic() - started

        await in_time("up", up, 10.0)  # 5 s promised; the rest is for a busy machine
        assert instance.psql("select n from kept") == [(42,)]
        assert instance.state().ports == ports


def test_a_killed_supervisor_leaves_nothing_behind_and_up_works_again() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        instance.psql("create table kept as select 42 as n")
        marks = [ProcessMark.of(instance.pid(name)) for name in PARTS]

        instance.kill9("supervisor")

        wait_until("no orphans", lambda: not any(m and m.process() for m in marks), 5)
        instance.up()
        assert instance.psql("select n from kept") == [(42,)]


def test_two_ups_at_the_same_moment_share_one_instance() -> None:
    instance = HeelerInstance(env=DUMMIES)
    first, second = instance.popen("up"), instance.popen("up")
    outputs = [process.communicate(timeout=60)[0] for process in (first, second)]
    codes = [first.returncode, second.returncode]
    healthy = instance.is_healthy()
    instance.close()

    assert codes == [0, 0], outputs
    assert healthy


def test_a_port_taken_while_down_is_chosen_anew() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        taken = instance.state().ports["nats"]
        instance.down()
        with socket.create_server(("127.0.0.1", taken)):
            instance.up()
            assert instance.state().ports["nats"] != taken


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres to another account")
def test_a_home_closed_to_other_accounts_keeps_its_data_elsewhere(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with HeelerInstance(env=DUMMIES, home=tmp_path / "home") as instance:
        instance.psql("create table kept as select 42 as n")
        data = Path((instance.home / "postgres-data-is-in").read_text().strip())
        assert (data / "PG_VERSION").exists()
        assert not data.is_relative_to(tmp_path)
        instance.down()
        instance.up()
        assert instance.psql("select n from kept") == [(42,)]

        # Who deletes the home starts anew, and the old data is not thrown away behind their back.
        instance.down()
        shutil.rmtree(instance.home)
        instance.up()
        assert instance.psql("select to_regclass('kept')") == [(None,)]
        assert len(list(data.parent.glob("postgres.before-*"))) == 1

        assert instance.command("wipe").returncode == 0
        assert not data.parent.exists()
        assert not instance.home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root hands Postgres to another account")
def test_a_home_of_an_earlier_release_goes_on_and_is_closed_to_others() -> None:
    nobody = pwd.getpwnam("nobody")
    with HeelerInstance(env=DUMMIES) as instance:
        instance.psql("create table kept as select 42 as n")
        data = Path(instance.psql("show data_directory")[0][0])
        instance.down()
        old = instance.home / "postgres"
        shutil.move(data, old)
        (instance.home / "postgres-data-is-in").unlink()
        postgres_account.own(old, postgres_account.Account(nobody.pw_uid, nobody.pw_gid))
        for path in (instance.home, instance.home / "logs"):
            path.chmod(0o755)
        (instance.home / "logs" / "api.log").chmod(0o644)

        instance.up()

        assert instance.psql("select n from kept") == [(42,)]
        assert Path(instance.psql("show data_directory")[0][0]) == old
        assert old.owner() == psutil.Process(instance.pid("postgres")).username()
        # Postgres, and nobody else, has to go through it.
        assert instance.home.stat().st_mode & 0o777 == 0o710
        assert instance.home.stat().st_gid == old.stat().st_gid
        assert instance.home.stat().st_gid != nobody.pw_gid
        assert (instance.home / "logs").stat().st_mode & 0o077 == 0
        assert (instance.home / "logs" / "api.log").stat().st_mode & 0o077 == 0


def test_a_home_may_have_any_name() -> None:
    folder = Path(tempfile.mkdtemp(prefix="heeler-test-hé ler-"))
    folder.chmod(0o755)
    try:
        with HeelerInstance(env=DUMMIES, home=folder / "ho me 'ünd' \"mehr\"") as instance:
            instance.psql("create table kept as select 42 as n")
            assert instance.status()["healthy"] is True
            output = instance.up()
            assert f"HEELER_HOME={shlex.quote(str(instance.home))} make down" in output
            instance.down()
            instance.up()
            assert instance.psql("select n from kept") == [(42,)]
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("command", ["up", "run"])
def test_an_open_address_without_a_password_is_refused_before_anything_starts(
    tmp_path: Path, command: str
) -> None:
    env = {**DUMMIES, "HEELER_HOST": "0.0.0.0", "HEELER_PASSWORD": ""}
    instance = HeelerInstance(env=env, home=tmp_path / "home")

    done = instance.command(command)

    assert done.returncode == 1
    assert done.stderr.startswith("HEELER_HOST=0.0.0.0 can be reached from other machines")
    assert "set HEELER_PASSWORD" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not instance.home.exists()


DAMAGES = {
    "nothing": b"",
    "half of it": b'{"phase": "running", "supervisor": {"pid": ',
    "no text": b"\xff\xfe\x00",
    "a list": b"[]",
    "other types": b'{"phase": "running", "supervisor": {"pid": "x", "created": []}, "parts": []}',
    "no parts": b'{"phase": "running", "supervisor": null, "urls": {}, "ports": {}, "parts": {}}',
    "a folder": None,
}


@pytest.mark.parametrize("content", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_beside_a_running_server_is_repaired(
    heeler: HeelerInstance, content: bytes | None
) -> None:
    heeler.wait_healthy()
    before = heeler.state()
    damage(heeler.home / "state.json", content)

    printed = heeler.command("status")
    assert "Traceback" not in printed.stderr
    output = heeler.up()

    assert f"already up: {heeler.base_url}" in output
    after = heeler.state()
    assert after.supervisor == before.supervisor
    assert after.parts == before.parts
    assert heeler.command("status").returncode == 0


@pytest.mark.parametrize("content", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_without_a_server_is_in_nobodys_way(
    tmp_path: Path, content: bytes | None
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    damage(home / "state.json", content)
    instance = HeelerInstance(env=DUMMIES, home=home)

    status, down = instance.command("status"), instance.command("down")

    assert (status.returncode, down.returncode) == (1, 0)
    assert "Heeler is not running" in down.stdout
    assert "Traceback" not in status.stderr + down.stderr


def damage(path: Path, content: bytes | None) -> None:
    path.unlink(missing_ok=True)
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)


async def test_a_part_that_does_not_get_well_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_process, "LOOK_SECONDS", 0.01)
    sick = Command(
        name="sick",
        argv=["sleep", "600"],
        environment=dict(os.environ),
        folder=tmp_path,
        log=tmp_path / "sick.log",
    )
    state = PartState("sick")
    kept = supervised_process.Part(sick, state, lambda: None)
    looks: list[int] = []

    def look() -> Look:
        looks.append(state.restarts)
        missing = Missing("an answer", kept.started_at, OwnTime(60.0, 0.02))
        return Look(is_well=True) if state.restarts >= 3 else Look(False, (missing,))

    kept.start()
    watching = asyncio.create_task(kept.watch(look))
    try:
        await wait_for("it is well at last", lambda: looks.count(3) >= 10, 30)
        assert (state.state, state.restarts) == ("running", 3)  # who is well is left alone
    finally:
        watching.cancel()
        await kept.stop()


async def test_a_part_that_a_full_disk_keeps_from_starting_is_tried_again(tmp_path: Path) -> None:
    command = Command(
        name="late",
        argv=["sleep", "600"],
        environment=dict(os.environ),
        folder=tmp_path,
        log=tmp_path / "late.log",
    )
    tries: list[int] = []

    def prepare(part: supervised_process.Part) -> None:
        tries.append(part.starts_in_vain)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    state = PartState("late")
    kept = supervised_process.Part(command, state, lambda: None, prepare)
    kept.start()
    try:
        await wait_for("it runs", lambda: state.state == "running", 30)
        assert len(tries) == 3
    finally:
        await kept.stop()


def test_a_pid_file_that_names_a_stranger_does_not_block_the_start() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        pid_file = Path(instance.psql("show data_directory")[0][0]) / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        instance.down()
        pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")

        instance.up()

        assert instance.state().parts["postgres"].restarts == 0


def test_what_a_killed_postgres_left_ends_no_start() -> None:
    """Its processes that have not noticed have its memory, and it is not reaped: a zombie."""
    server = PostgresServer().start()
    try:
        server.server.clear_what_died()  # one that runs is left alone
        assert server.server.ready()
        pid_file = server.server.data / "postmaster.pid"
        lines = pid_file.read_text()
        pid_file.write_text(f"-{lines}")  # as in single-user mode
        server.server.clear_what_died()
        assert server.server.ready()
        pid_file.write_text(lines)
        for _ in range(3):
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute("create table if not exists kept (n int)")
                connection.execute("insert into kept values (42)")
            postmaster = psutil.Process(server.pid)
            children = postmaster.children()
            for child in children:
                child.suspend()
            postmaster.kill()
            wait_until("a zombie", lambda: is_zombie(postmaster), 30)  # noqa: B023

            server.server.clear_what_died()
            process = spawn(server.server.command())
            wait_until("it is ready", server.server.ready, 60)

            assert process.poll() is None, "at the first attempt"
            assert not any(_runs(child.pid) for child in children)
            server._process = process
        with psycopg.connect(server.url) as connection:
            assert connection.execute("select count(*) from kept").fetchone() == (3,)
    finally:
        server.close()


def is_zombie(process: psutil.Process) -> bool:
    return process.status() == psutil.STATUS_ZOMBIE


def test_a_child_that_outlives_its_supervisor_is_reported_and_ended_by_down() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        instance.kill9("supervisor")
        orphan = subprocess.Popen(["sleep", "60"], process_group=0)
        state = instance.state()
        state.parts["agent"].mark = ProcessMark.of(orphan.pid)
        write_state(instance.home, state)

        done = instance.command("up")

        assert done.returncode == 1
        assert f"agent (pid {orphan.pid}) still runs" in done.stderr
        assert "make down" in done.stderr
        assert "stopped" in instance.down()
        assert orphan.wait(1) == -signal.SIGTERM


def test_down_leaves_a_stranger_alone_who_has_a_recorded_pid_by_now() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        instance.down()
        stranger = subprocess.Popen(["sleep", "60"], process_group=0)
        state = instance.state()
        state.parts["agent"].mark = ProcessMark(stranger.pid, created=1.0)
        write_state(instance.home, state)

        instance.down()

        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()


def test_up_while_it_is_up_names_the_variables_that_have_other_values(
    heeler: HeelerInstance,
) -> None:
    assert "other values" not in heeler.up()
    heeler.env |= {"OPENAI_API_KEY": "hunter2", "HEELER_RUN_SECONDS_MAX": "60"}
    try:
        output = heeler.up()
    finally:
        del heeler.env["OPENAI_API_KEY"], heeler.env["HEELER_RUN_SECONDS_MAX"]

    assert "other values of HEELER_RUN_SECONDS_MAX, OPENAI_API_KEY than are set here" in output
    assert "make down up" in output
    assert "hunter2" not in output + (heeler.home / "state.json").read_text()


def test_up_refuses_a_sandbox_that_does_not_exist_and_names_what_is_set_in_vain(
    tmp_path: Path,
) -> None:
    env = {**DUMMIES, "HEELER_SANDBOX": "docker"}
    refused = HeelerInstance(env=env, home=tmp_path / "home").command("up")
    assert refused.returncode == 1
    assert "HEELER_SANDBOX is 'docker': it must be process, process-unconfined" in refused.stderr

    (tmp_path / "file").write_text("")
    env = {**DUMMIES, "LETTA_PG_URI": "postgresql://u:hunter2@h/letta", "HEELER_REPLICA": "2"}
    done = HeelerInstance(env=env, home=tmp_path / "file" / "home").command("up")
    assert "LETTA_PG_URI is not used: Heeler brings its own Postgres" in done.stdout
    assert "HEELER_REPLICA is not used: there is no such variable: HEELER_REPLICAS?" in done.stdout
    assert "hunter2" not in done.stdout


def test_status_breaks_no_address_on_a_narrow_terminal(heeler: HeelerInstance) -> None:
    heeler.wait_healthy()
    heeler.env["COLUMNS"] = "60"
    try:
        printed = heeler.command("status").stdout
    finally:
        del heeler.env["COLUMNS"]
    state = heeler.state()
    assert f"postgresql://127.0.0.1:{state.ports['postgres']}/heeler\n" in printed
    assert f"nats://127.0.0.1:{state.ports['nats']}\n" in printed
    assert f"{heeler.base_url}\n" in printed


def test_a_home_that_was_copied_without_its_database_is_refused() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        data = Path(instance.psql("show data_directory")[0][0])
        instance.psql("create table kept as select 42 as n")
        instance.down()
        aside = data.with_name("aside")
        data.rename(aside)

        for command in ("up", "run"):
            refused = instance.command(command)

            assert refused.returncode == 1
            assert f"The database of {instance.home} is missing" in refused.stderr
            assert not data.exists()

        aside.rename(data)
        instance.up()
        assert instance.psql("select n from kept") == [(42,)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only for root the data is beside the home")
def test_a_refusal_of_a_copied_home_says_what_to_copy() -> None:
    with HeelerInstance(env=DUMMIES) as instance, HeelerInstance(env=DUMMIES) as other:
        instance.psql("create table kept as select 42 as n")
        instance.down()
        other.close()
        shutil.copytree(instance.home, other.home)
        ours, theirs = (
            home.with_name(f"{home.name}.postgres") for home in (instance.home, other.home)
        )

        refused = other.command("up")

        assert f"It was in {ours}" in refused.stderr
        assert f"as {theirs} (cp -a)" in refused.stderr
        subprocess.run(["cp", "-a", ours, theirs], check=True)
        other.up()
        assert other.psql("select n from kept") == [(42,)]


def test_a_running_instance_that_is_not_healthy_is_named_with_its_log() -> None:
    with HeelerInstance(env={**DUMMIES, "HEELER_FROZEN_SECONDS_MAX": "3600"}) as instance:
        os.kill(instance.pid("memory"), signal.SIGSTOP)

        done = instance.command("up")

        assert done.returncode == 1
        assert "memory reports 'not answering'" in done.stderr
        assert "make down" in done.stderr
        os.kill(instance.pid("memory"), signal.SIGCONT)


@pytest.mark.parametrize("name", ["memory", "nats", "postgres"])
def test_a_frozen_part_is_replaced_and_no_other(heeler: HeelerInstance, name: str) -> None:
    heeler.wait_healthy()
    others = {other: heeler.pid(other) for other in PARTS if other != name}
    frozen = heeler.pid(name)

    os.kill(frozen, signal.SIGSTOP)

    heeler.wait_restarted(name, frozen, 60)
    heeler.wait_healthy()
    assert not _runs(frozen)
    assert {other: heeler.pid(other) for other in others} == others


def folder_of(heeler: HeelerInstance, stream: str) -> Path:
    return heeler.home / "nats" / "store" / "jetstream" / "$G" / "streams" / stream


def without_what_a_stream_is(heeler: HeelerInstance) -> None:
    (folder_of(heeler, "EVENTS_TOOLS") / "meta.inf").unlink()


def with_another_checksum(heeler: HeelerInstance) -> None:
    (folder_of(heeler, "COMMANDS") / "meta.sum").write_text("0" * 16)


def with_a_file_in_its_place(heeler: HeelerInstance) -> None:
    shutil.rmtree(heeler.home / "nats" / "store")
    (heeler.home / "nats" / "store").write_text("")


@pytest.mark.parametrize(
    "damage_store",
    [without_what_a_stream_is, with_another_checksum],
)
def test_a_damaged_store_of_nats_is_set_aside_and_the_start_says_so(
    damage_store: Callable[[HeelerInstance], None],
) -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        assert_store_is_set_aside(instance, damage_store)


def test_of_damaged_stores_the_last_is_kept() -> None:
    with HeelerInstance(env=DUMMIES) as instance:
        for _ in range(2):
            assert_store_is_set_aside(instance, with_a_file_in_its_place)


def assert_store_is_set_aside(
    instance: HeelerInstance, damage_store: Callable[[HeelerInstance], None]
) -> None:
    instance.down()
    damage_store(instance)

    output = instance.up()

    (aside,) = (instance.home / "nats").glob("store.damaged-*")
    assert f"The store of NATS was damaged and is set aside as {aside}" in output
    assert folder_of(instance, "EVENTS_TOOLS").is_dir()


def test_a_service_that_cannot_start_fails_up_with_the_end_of_its_log() -> None:
    env = {**DUMMIES, "HEELER_MIGRATIONS_MODULE": "tests.dummies.broken"}
    instance = HeelerInstance(env=env)
    (instance.home / "logs").mkdir(mode=0o700)
    (instance.home / "logs" / "migrate.log").write_text("of the start before\n")
    done = instance.command("up")
    leftovers = [part.mark for part in instance.state().parts.values() if part.mark]
    instance.close()

    assert done.returncode == 1
    assert "the migrations ended with exit code 1" in done.stderr
    assert "this migration is broken" in done.stderr
    assert "of the start before" not in done.stderr
    assert leftovers == []


def test_backoff_grows_to_five_seconds_and_forgives_who_lived_long() -> None:
    backoff = Backoff()
    waits = [backoff.after(0.1) for _ in range(9)]
    assert waits == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert backoff.after(2.0) == 0.0


def test_a_log_past_its_limit_is_moved_aside_and_three_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "api.log"
    for age in range(5):
        with log.open("w") as file:
            file.write(str(age))
            file.truncate(LOG_BYTES_MAX)
        rotate(log)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "api.log.1",
        "api.log.2",
        "api.log.3",
    ]
    assert (tmp_path / "api.log.1").open().read(1) == "4"


def test_postgres_server_keeps_its_data_over_kill9(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database("launcher")
    with psycopg.connect(url) as connection:
        connection.execute("create table kept as select 42 as n")
    postgres_server.kill9()
    postgres_server.start()
    with psycopg.connect(url) as connection:
        assert connection.execute("select n from kept").fetchone() == (42,)


async def test_nats_server_keeps_streams_until_its_store_is_wiped() -> None:
    server = new_nats().start()
    try:
        await _add_stream(server)
        server.kill9()
        server.start()
        assert await _streams(server) == ["kept"]
        server.stop()
        server.wipe_store()
        server.start()
        assert await _streams(server) == []
    finally:
        server.close()


async def _add_stream(server: NatsServer) -> None:
    client = await nats.connect(server.url)
    await client.jetstream().add_stream(name="kept", subjects=["kept.>"])
    await client.close()


async def _streams(server: NatsServer) -> list[str | None]:
    client = await nats.connect(server.url)
    streams = [info.config.name for info in await client.jetstream().streams_info()]
    await client.close()
    return streams


def _runs(pid: int) -> bool:
    mark = ProcessMark.of(pid)
    return mark is not None and mark.process() is not None


def test_free_ports_stay_below_the_ephemeral_range() -> None:
    assert 20000 <= free_port() < 32000
    assert 26000 <= free_port(apart_from=range(20000, 26000)) < 32000
