"""What can be wrong with an installation: how it is planted, and what the doctor says of it."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

import nats
import psycopg
import pytest

from deploy.embedded.encryption_keys import KEYS_FILE, open_encryption_keys
from deploy.embedded.state import InstanceState, PartState, ProcessMark, write_state
from libs.contracts.service_registry import ENCRYPTION_KEYS
from libs.contracts.stream_definitions import streams
from libs.encryption.sealer import Sealer
from libs.encryption.sealing_keys import new_key
from tests.integration.doctor.site import KEY, WRONG_KEY, Site
from tests.ports import free_port

MIB = 1 << 20
ADMIN = "HEELER_ADMIN_DATABASE_URL"
type Plant = Callable[[Site, pytest.MonkeyPatch], None]


@dataclass(frozen=True)
class Fault:
    """One fault: who finds it, a part of what is said of it, and what a person knows who mends it:
    the values of `<words>` in the fix, by a function of the site as it was before."""

    name: str
    check: str
    says: str
    plant: Plant
    answers: Callable[[Site], Mapping[str, str]] = field(default=lambda _: {})
    state: str = "problem"


def variable(name: str, value: str) -> Plant:
    """The fault that a variable has this value."""

    def plant(site: Site, _: pytest.MonkeyPatch) -> None:
        site.environment[name] = value

    return plant


def open_home(site: Site, _: pytest.MonkeyPatch) -> None:
    """Let everybody look into the home."""
    site.home.chmod(0o755)


def wrong_file(site: Site, _: pytest.MonkeyPatch) -> None:
    """Write a value into the configuration file that cannot be used; the editor repairs it."""
    (site.home / "heeler.toml").write_text("[server]\nreplicas = 99\n")
    (site.home / "heeler.toml").chmod(0o600)
    site.stand_in("edit", 'sed -i "${1#+}s/99/1/" "$2"')
    site.environment["EDITOR"] = "edit"


def take_port(site: Site, _: pytest.MonkeyPatch) -> None:
    """Have another process listen where the API should."""
    taken = socket.create_server(("127.0.0.1", 0))
    site.kept["socket"] = taken
    site.environment["HEELER_PORT"] = str(taken.getsockname()[1])


def fill_disk(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small disk that the home fills, with a store of NATS that was put aside."""
    store = site.home / "nats" / "store.damaged-1"
    store.mkdir(parents=True)
    with (store / "block").open("wb") as file:
        file.truncate(3_900 * MIB)  # takes no room

    def usage(_: object) -> SimpleNamespace:
        used = sum(path.stat().st_size for path in site.home.rglob("*") if path.is_file())
        return SimpleNamespace(total=4_000 * MIB, used=used, free=4_000 * MIB - used)

    monkeypatch.setattr(shutil, "disk_usage", usage)


def turn_clock(site: Site, _: pytest.MonkeyPatch) -> None:
    """The clock of the provider, and of the world, is an hour ahead of this machine's."""
    clock = site.home.parent / "clock"
    clock.write_text("3600")
    site.stand_in("sudo", '"$@"')
    site.stand_in("timedatectl", f'[ "$*" = "set-ntp true" ] && echo 0 >"{clock}"')


def damage_keys(site: Site, _: pytest.MonkeyPatch) -> None:
    """Overwrite the keys of secrets, of which there is a copy."""
    keys = site.home / KEYS_FILE
    shutil.copy(keys, site.home.parent / "copy")
    keys.write_text("nothing of use\n")


def change_keys(site: Site, _: pytest.MonkeyPatch) -> None:
    """Give other keys than those with which a stored secret is sealed."""
    sealed = Sealer.from_environment({ENCRYPTION_KEYS: open_encryption_keys(site.home)}).seal("x")
    with psycopg.connect(site.environment[ADMIN], autocommit=True) as connection:
        connection.execute("delete from tools.sandbox_variables")
        connection.execute(
            "insert into tools.sandbox_variables values"
            " ('v', 'o', 'c', now(), now(), 'KEY', %s, null)",
            [sealed],
        )
    site.environment[ENCRYPTION_KEYS] = new_key()


def leave_orphan(site: Site, _: pytest.MonkeyPatch) -> None:
    """A process of a server whose supervisor was killed."""
    orphan = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    site.kept["process"] = orphan
    part = PartState("agent", "running", ProcessMark.of(orphan.pid))
    gone = ProcessMark(orphan.pid, 1.0)
    write_state(site.home, InstanceState("running", gone, parts={"agent": part}))


def cut_server(site: Site, _: pytest.MonkeyPatch) -> None:
    """A server that the machine took with it when it lost its power."""
    write_state(site.home, InstanceState("running", ProcessMark(1 << 22, 1.0)))


def lose_schema(site: Site, _: pytest.MonkeyPatch) -> None:
    """A database that an earlier release made, which had one service less."""
    with psycopg.connect(site.environment[ADMIN], autocommit=True) as connection:
        connection.execute("drop schema groups cascade")


def lose_streams(site: Site, _: pytest.MonkeyPatch) -> None:
    """A NATS whose store was lost."""

    async def delete() -> None:
        client = await nats.connect(site.environment["HEELER_NATS_URL"])
        for spec in streams():
            await client.jetstream().delete_stream(spec.name)
        await client.close()

    asyncio.run(delete())


def without_port(url: str) -> str:
    """The address of a server that does not run."""
    head, _, rest = url.rpartition(":")
    return f"{head}:{free_port()}/{rest.partition('/')[2]}"


def stop_postgres(site: Site, _: pytest.MonkeyPatch) -> None:
    """Name a Postgres that does not run."""
    site.environment[ADMIN] = without_port(site.environment[ADMIN])


def stop_nats(site: Site, _: pytest.MonkeyPatch) -> None:
    """Name a NATS that does not run."""
    site.environment["HEELER_NATS_URL"] = without_port(site.environment["HEELER_NATS_URL"])


def forget_password(site: Site, _: pytest.MonkeyPatch) -> None:
    """Name Postgres with a password that is not its user's."""
    site.environment[ADMIN] = site.environment[ADMIN].replace(":test@", ":hunter2hunter2@")


def cut_path(site: Site, _: pytest.MonkeyPatch) -> None:
    """Give the address of a provider without its path."""
    base = site.environment["OPENAI_API_BASE"]
    site.environment["OPENAI_API_BASE"] = base.removesuffix("/v1")


def stop_provider(site: Site, _: pytest.MonkeyPatch) -> None:
    """Give the address of a provider that does not run."""
    site.environment["OPENAI_API_BASE"] = f"http://127.0.0.1:{free_port()}/v1"


def speak_tls(site: Site, _: pytest.MonkeyPatch) -> None:
    """Give the address of a local server with the wrong scheme."""
    site.environment["OPENAI_API_BASE"] = site.environment["OPENAI_API_BASE"].replace(
        "http:", "https:"
    )


FAULTS = [
    Fault("a value", "settings", "HEELER_REPLICAS is 'many'", variable("HEELER_REPLICAS", "many")),
    Fault("the file", "settings", "replicas", wrong_file),
    Fault(
        "a misspelt variable",
        "variables",
        "HEELER_REPLICAS?",
        variable("HEELER_REPLICA", "2"),
        state="warning",
    ),
    Fault("no password", "password", "other machines", variable("HEELER_HOST", "0.0.0.0")),
    Fault("an open home", "home", "can be read by other users", open_home),
    Fault("a taken port", "port", "is taken by", take_port),
    Fault("a full disk", "disk", "the disk is full", fill_disk),
    Fault("a time zone", "timezones", "Mars/Olympus", variable("TZ", "Mars/Olympus")),
    Fault("the clock", "clock", "s behind that of openai", turn_clock),
    Fault(
        "damaged keys",
        "encryption",
        "is damaged",
        damage_keys,
        lambda site: {f"your copy of {KEYS_FILE}": str(site.home.parent / "copy")},
    ),
    Fault("other keys", "secrets", "those of the home open all", change_keys),
    Fault("an orphan", "processes", "agent (pid", leave_orphan),
    Fault("a stale state", "processes", "nobody stopped it", cut_server, state="warning"),
    Fault(
        "no Postgres",
        "postgres",
        "does not answer",
        stop_postgres,
        lambda site: {"url of a Postgres that runs": site.environment[ADMIN]},
    ),
    Fault(
        "a wrong password",
        "postgres",
        "does not accept the user or the password",
        forget_password,
        lambda site: {"the same url with the password of its user": site.environment[ADMIN]},
    ),
    Fault(
        "no address",
        "postgres",
        "is no address of Postgres",
        variable(ADMIN, "postgress://heeler:hunter2hunter2@localhost/heeler"),
        lambda site: {"url of a Postgres that runs": site.environment[ADMIN]},
    ),
    Fault("old schemas", "migrations", "groups", lose_schema),
    Fault(
        "no NATS",
        "nats",
        "does not answer",
        stop_nats,
        lambda site: {"address of a NATS that runs": site.environment["HEELER_NATS_URL"]},
    ),
    Fault("no streams", "nats", "lacks the streams COMMANDS", lose_streams),
    Fault(
        "a wrong key",
        "providers",
        "does not accept the key in OPENAI_API_KEY (401)",
        variable("OPENAI_API_KEY", WRONG_KEY),
        lambda _: {"a key of this provider": KEY},
    ),
    Fault("a wrong path", "providers", "the address is not right", cut_path),
    Fault("no TLS", "providers", "it speaks no TLS", speak_tls),
    Fault(
        "no provider",
        "providers",
        "nothing listens there",
        stop_provider,
        lambda site: {"address of a server that runs": site.environment["OPENAI_API_BASE"]},
    ),
]
PASSWORDS_OF_SERVICES = "HEELER_SERVICE_PASSWORDS"


def service_passwords(names: tuple[str, ...], password: str) -> str:
    """The variable that a migration reads."""
    return json.dumps(dict.fromkeys(names, password))
