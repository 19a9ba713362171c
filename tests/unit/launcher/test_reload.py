"""A configuration is loaded anew as a whole or not at all."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from deploy.embedded import process_activity, supervised_process
from deploy.embedded.applied_configuration import AppliedConfiguration, read_applied
from deploy.embedded.process_activity import OwnTime
from deploy.embedded.reload import Reloader
from deploy.embedded.service_environment import fingerprints
from deploy.embedded.settings import Settings, read_settings
from deploy.embedded.state import PartState
from deploy.embedded.subprocesses import Command
from deploy.embedded.supervised_process import Failed, Part
from libs.bus.configuration_file import Configuration
from services.api.adapters.server.supervisor import NoSupervisor, Supervisor
from tests.waiting import wait_for

SERVICES = ("memory", "agent", "api")
KEY = "key"


class FakePart:
    """A part that notes with which environments it was started."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.started: list[str] = []

    async def replace(self, command: Command) -> None:
        self.command = command
        self.started.append(command.environment.get("HEELER_RUN_SECONDS_MAX", ""))


@dataclass
class Server:
    """What a reload works on: a home with a file, and parts that may fail."""

    home: Path
    parts: dict[str, FakePart] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)  # that the check finds
    refuses: Callable[[Mapping[str, str]], str] | None = None  # what the check finds, if anything
    fails: Callable[[FakePart], bool] = lambda _: False
    tries: list[bool] = field(default_factory=list)  # whether each check tried the sandbox
    reloader: Reloader = field(init=False)

    def __post_init__(self) -> None:
        settings = read_settings({**os.environ, "HEELER_HOME": str(self.home)})
        self.parts = {name: FakePart(self.command(settings, name)) for name in SERVICES}
        applied = AppliedConfiguration()
        variables = fingerprints(settings.environment, KEY)
        applied.hold(variables, None)
        self.reloader = Reloader(
            settings=settings,
            applied=applied,
            variables=variables,
            key=KEY,
            parts=cast(list[Part], [*self.parts.values()]),
            command=self.command,
            wait_healthy=self.wait_healthy,
            write=lambda: applied.write(self.home),
            check=self.check,
        )

    def command(self, settings: Settings, name: str) -> Command:
        return Command(
            name=name,
            argv=[name],
            environment={**settings.environment},
            folder=self.home,
            log=self.home / f"{name}.log",
        )

    async def wait_healthy(self, part: Part) -> None:
        if self.fails(cast(FakePart, part)):
            raise Failed(part.command.name, f"{part.command.name} did not get healthy")

    async def check(self, configuration: Configuration, tries: bool) -> list[str]:
        self.tries.append(tries)
        problems = [self.refuses(configuration.environment)] if self.refuses else []
        return [*self.problems, *filter(None, problems)]

    async def reload(self, text: str) -> dict[str, Any]:
        """The latest attempt, as it is written."""
        (self.home / "heeler.toml").write_text(text)
        await self.reloader.reload()
        document = json.loads((self.home / "configuration.json").read_text())
        attempt: dict[str, Any] = document["reloads"][-1]
        return attempt

    @property
    def started(self) -> dict[str, list[str]]:
        return {name: part.started for name, part in self.parts.items()}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("HEELER_HOME", str(tmp_path))
    return Server(tmp_path)


async def test_only_processes_that_read_what_has_changed_are_replaced(server: Server) -> None:
    attempt = await server.reload("runs.seconds_max = 60\n")
    assert attempt["status"] == "applied"
    assert (attempt["changed"], attempt["replaced"]) == (["runs.seconds_max"], ["agent"])
    assert server.started == {"memory": [], "agent": ["60"], "api": []}
    assert server.parts["api"].command.environment["HEELER_RUN_SECONDS_MAX"] == "60"
    assert attempt["version"] == server.reloader.applied.version == 2

    attempt = await server.reload("server.log_level = 'debug'\n")
    assert attempt["changed"] == ["server.log_level", "runs.seconds_max"]
    assert attempt["replaced"] == [*SERVICES]


async def test_the_sandbox_is_tried_where_its_settings_have_changed(server: Server) -> None:
    for text in ("tools.sandbox = 'container'\n", "tools.sandbox = 'container' # it is\n"):
        await server.reload(text)
    await server.reload("tools.sandbox = 'container'\nruns.seconds_max = 60\n")
    assert server.tries == [True, False, False]


async def test_a_configuration_that_is_the_same_changes_nothing(server: Server) -> None:
    await server.reload("runs.seconds_max = 60\n")
    attempt = await server.reload("runs.seconds_max = 60  # a minute\n")
    assert (attempt["status"], attempt["version"], attempt["replaced"]) == ("unchanged", 2, [])
    assert server.started["agent"] == ["60"]


@pytest.mark.parametrize(
    ("text", "problems", "said"),
    [
        ("[runs", [], "heeler.toml: this is no TOML"),
        ("runs.seconds_max = 'a'", [], "heeler.toml:1: runs.seconds_max must be a number"),
        (
            "\nruns.seconds_max = 0",
            ["HEELER_RUN_SECONDS_MAX is '0': it must be more"],
            "heeler.toml:2: runs.seconds_max: HEELER_RUN_SECONDS_MAX is '0': it must be more",
        ),
    ],
)
async def test_a_wrong_file_changes_nothing_and_says_why(
    server: Server, text: str, problems: list[str], said: str
) -> None:
    await server.reload("runs.seconds_max = 60\n")
    server.problems = problems
    attempt = await server.reload(text)
    assert attempt["status"] == "refused"
    assert said in attempt["problems"][0]
    assert attempt["version"] == 2
    assert server.started == {"memory": [], "agent": ["60"], "api": []}
    assert server.reloader.settings.environment["HEELER_RUN_SECONDS_MAX"] == "60"


async def test_all_go_back_where_one_does_not_get_healthy(server: Server) -> None:
    await server.reload("runs.seconds_max = 60\n")
    server.fails = lambda part: (
        part is server.parts["api"] and part.command.environment.get("HEELER_LOG_LEVEL") == "debug"
    )
    attempt = await server.reload("server.log_level = 'debug'\nruns.seconds_max = 61\n")
    assert attempt["status"] == "rolled_back"
    assert attempt["problems"] == ["api did not get healthy"]
    assert attempt["version"] == server.reloader.applied.version == 2
    assert server.started == {
        "memory": ["61", "60"],
        "agent": ["60", "61", "60"],
        "api": ["61", "60"],
    }
    assert {"HEELER_LOG_LEVEL"}.isdisjoint(server.parts["memory"].command.environment)

    server.fails = lambda _: False
    attempt = await server.reload("server.log_level = 'debug'\nruns.seconds_max = 61\n")
    assert (attempt["status"], attempt["version"]) == ("applied", 3)


async def test_a_part_that_fails_on_the_way_back_too_is_named(server: Server) -> None:
    server.fails = lambda part: part is server.parts["agent"]
    attempt = await server.reload("runs.seconds_max = 60\n")
    assert attempt["status"] == "rolled_back"
    assert attempt["warnings"] == ["after the way back: agent did not get healthy"]
    assert "HEELER_RUN_SECONDS_MAX" not in server.parts["agent"].command.environment


async def test_whatever_goes_wrong_an_attempt_ends_and_all_is_as_before(server: Server) -> None:
    def break_down(part: FakePart) -> bool:
        if part.command.environment.get("HEELER_RUN_SECONDS_MAX"):
            raise KeyError("somebody's secret")
        return False

    server.fails = break_down
    attempt = await server.reload("runs.seconds_max = 60\n")
    assert attempt["status"] == "rolled_back"
    assert attempt["problems"] == ["KeyError: see the log of the supervisor"]
    assert server.started["agent"] == ["60", ""]

    server.reloader.command = lambda *_: 1 / 0  # type: ignore[assignment, return-value]
    attempt = await server.reload("runs.seconds_max = 60\n")
    assert attempt["status"] == "refused"
    assert attempt["problems"] == ["ZeroDivisionError: see the log of the supervisor"]


async def test_what_is_new_must_go_with_what_needs_a_start(server: Server) -> None:
    """The address of all machines stays until the next start, and needs its password."""

    def refuse(environment: Mapping[str, str]) -> str:
        is_open = environment.get("HEELER_HOST") == "0.0.0.0"
        return "there is no password" if is_open and not environment.get("HEELER_PASSWORD") else ""

    public = {"HEELER_HOST": "0.0.0.0", "HEELER_PASSWORD": "x"}
    settings = server.reloader.settings
    server.reloader.settings = replace(settings, environment={**settings.environment, **public})
    server.refuses = refuse
    attempt = await server.reload("server.host = '127.0.0.1'\n")
    assert (attempt["status"], attempt["problems"]) == ("refused", ["there is no password"])
    assert server.started["api"] == []


async def test_what_is_read_at_the_start_alone_is_named_and_keeps_its_value(
    server: Server,
) -> None:
    attempt = await server.reload("server.port = 8301\nserver.replicas = 2\n")
    assert attempt["needs_start"] == ["server.port", "server.replicas"]
    assert (attempt["status"], attempt["changed"]) == ("unchanged", [])
    assert "HEELER_PORT" not in server.parts["api"].command.environment


async def test_another_content_of_a_file_that_is_named_is_another_configuration(
    server: Server,
) -> None:
    prices = server.home / "prices.toml"
    prices.write_text("version = 'a'")
    await server.reload("models.prices_file = 'prices.toml'\n")
    prices.write_text("version = 'b'")
    attempt = await server.reload("models.prices_file = 'prices.toml'\n")
    assert (attempt["changed"], attempt["replaced"]) == (["models.prices_file"], ["agent"])


async def test_versions_count_on_over_starts_and_what_was_unfinished_has_ended(
    server: Server,
) -> None:
    await server.reload("runs.seconds_max = 60\n")
    applied = server.reloader.applied
    applied.begin()
    applied.write(server.home)

    found = read_applied(server.home)
    found.hold(server.reloader.variables, None)
    assert found.version == 2
    assert found.reloads[-1].problems == ["the server was stopped meanwhile"]
    found.hold({**server.reloader.variables, "HEELER_LOG_LEVEL": "x"}, None)
    assert found.version == 3

    (server.home / "configuration.json").write_text("{")
    assert read_applied(server.home) == AppliedConfiguration()


def part(folder: Path, script: str) -> Part:
    return Part(shell(folder, script), PartState("agent"), lambda: None)


def shell(folder: Path, script: str) -> Command:
    return Command(
        name="agent",
        argv=["sh", "-c", script],
        environment=dict(os.environ),
        folder=folder,
        log=folder / "agent.log",
    )


async def test_a_process_is_replaced_by_another_command_and_that_is_no_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_activity, "LOOK_AGAIN_SECONDS", 0.05)
    monkeypatch.setattr(supervised_process, "LOOK_AGAIN_SECONDS", 0.05)
    kept = part(tmp_path, "exec sleep 600")
    kept.start()
    try:
        await wait_for("it runs", lambda: kept.pid is not None, 30)
        before = kept.pid

        async def another_runs() -> bool:
            return kept.pid != before

        await kept.replace(shell(tmp_path, "exec sleep 601"))
        await kept.wait_for_sign(another_runs)
        assert kept.state.restarts == 0
        assert kept.command.argv[-1] == "exec sleep 601"

        stubborn = replace(shell(tmp_path, "trap '' TERM; while :; do sleep 0.01; done"))
        await kept.replace(stubborn)
        before = None
        await kept.wait_for_sign(another_runs)
        await kept.replace(replace(shell(tmp_path, "exit 3"), stops_within=OwnTime(10.0, 0.2)))
        with pytest.raises(Failed, match="agent ended at its start, with 3"):
            await kept.wait_for_sign(never)
        await kept.replace(shell(tmp_path, "exec sleep 600"))
        monkeypatch.setattr(supervised_process, "FIRST_ANSWER_WITHIN", OwnTime(9.0, 0.1))
        with pytest.raises(Failed, match=r"agent did not get healthy within 9 s on .* 0\.1 s idle"):
            await kept.wait_for_sign(never)
    finally:
        await kept.stop()


async def never() -> bool:
    return False


async def test_the_api_signals_its_parent_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.reload("runs.seconds_max = 60\n")
    file, signalled = server.home / "configuration.json", list[int]()
    server.reloader.applied.supervisor = 4711

    def signal_parent(pid: int, number: int) -> None:
        assert number == signal.SIGHUP
        signalled.append(pid)
        server.reloader.applied.begin().status = "applied"
        server.reloader.write()

    monkeypatch.setattr(os, "kill", signal_parent)
    server.reloader.write()
    for stranger in (Supervisor(""), Supervisor("/nowhere"), Supervisor(str(file), lambda: 4712)):
        with pytest.raises(NoSupervisor):
            await stranger.reload()
    assert not signalled

    document = await Supervisor(str(file), lambda: 4711).reload()
    assert signalled == [4711]
    assert "supervisor" not in document
    assert document["version"] == 2
