"""The sandbox of containers where there is no engine, or not the one that it takes."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from libs.contracts.environment_parsing import WrongSetting
from services.tools.adapters.container_engine import (
    Cleanup,
    ContainerEngine,
    is_dead,
    last_line,
    mount,
    owner,
    passed_on,
    user_of,
)
from services.tools.adapters.container_process import ContainerProcess
from services.tools.adapters.container_sandbox import ContainerPool, ContainerSandbox
from services.tools.adapters.process_sandbox import ProcessSandbox
from services.tools.adapters.running_sandbox import NotStarted
from services.tools.app import sandbox_of
from services.tools.sandbox.ports import Program, Workspace
from services.tools.sandbox.sessions import NoSession
from services.tools.settings import ToolsSettings

ABLE = {
    "OSType": "linux",
    "MemoryLimit": True,
    "PidsLimit": True,
    "CpuCfsQuota": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}


def a_docker(folder: Path, script: str) -> None:
    """A command that stands where Docker's would."""
    command = folder / "docker"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder besides the system's in which commands are looked for."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    return tmp_path


async def refusal_at_start(sandbox: ContainerSandbox) -> str:
    await sandbox.start()
    outcome = await sandbox.run(Program("python", "1"))
    assert (outcome.status, outcome.started, outcome.reason) == ("error", False, sandbox.refusal)
    with pytest.raises(NoSession, match="This server runs no code of tools"):
        await sandbox.start_session(Workspace("/workspace"))
    await sandbox.close()
    return outcome.reason


class TestRefusals:
    """SBX-12: chosen and not to be had, it is said at the start, and code is refused in words."""

    async def test_without_the_command(self, tmp_path, monkeypatch, caplog) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        told = await refusal_at_start(ContainerSandbox("python"))
        assert told == (
            "This server runs no code of tools: HEELER_SANDBOX is container, but there is no"
            " `docker` command where the server runs"
        )
        assert told in caplog.text

    async def test_without_an_engine(self, path) -> None:
        a_docker(path, "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
        told = await refusal_at_start(ContainerSandbox("python"))
        assert told.endswith("no container engine answers: Cannot connect to the Docker daemon")

    @pytest.mark.parametrize(
        ("lacks", "words"),
        [
            ({"MemoryLimit": False, "PidsLimit": False}, "cannot bound memory and processes"),
            ({"SecurityOptions": None}, "no filter of system calls"),
            ({"OSType": "windows"}, "no Linux containers"),
        ],
        ids=["bounds", "filter", "system"],
    )
    async def test_with_an_engine_that_cannot_hold_anything(self, path, lacks, words) -> None:
        a_docker(path, f"echo '{json.dumps({**ABLE, **lacks})}'")
        assert words in await refusal_at_start(ContainerSandbox("python"))

    async def test_without_the_image(self, path) -> None:
        a_docker(path, f"test $1 = image && exit 1; echo '{json.dumps(ABLE)}'")
        told = await refusal_at_start(ContainerSandbox("python:none"))
        assert told.endswith(
            "the engine has no image 'python:none': `docker pull python:none` gets one"
        )

    async def test_with_an_image_in_which_nothing_starts(self, path) -> None:
        script = f"""
case $1 in
  info) echo '{json.dumps(ABLE)}';;
  run) echo 'docker: Error: no python3 in PATH.' >&2
       echo "See 'docker run --help'." >&2; exit 127;;
esac"""
        a_docker(path, script)
        told = await refusal_at_start(ContainerSandbox("busybox"))
        assert told.endswith("no container could be started: docker: Error: no python3 in PATH.")

    async def test_with_an_engine_that_says_nothing(self, path, monkeypatch) -> None:
        monkeypatch.setattr("services.tools.adapters.container_engine.ASK_SECONDS_MAX", 0.2)
        a_docker(path, "exec sleep 60")
        told = await refusal_at_start(ContainerSandbox("python"))
        assert "`docker info` did not end within 0.2 seconds" in told


async def test_a_container_that_dies_before_it_is_ready_is_removed(path) -> None:
    a_docker(path, f"echo $1 $2 >> {path}/asked; test $1 = run && printf 'garbage' ; exit 3")
    pool = ContainerPool(ContainerEngine("python", "none"), idle_min=0, idle_max=0)
    with pytest.raises(NotStarted):
        await pool.start()
    await pool.close()
    assert (path / "asked").read_text().split("\n")[:2] == ["run --rm", "rm --force"]
    assert pool.used == set()


def test_what_a_container_is_started_with(monkeypatch) -> None:
    engine = ContainerEngine("python:3.12-slim", "none")
    words = engine.words("one", Workspace("/a,b", 7), "/packages")
    pairs = set(pairwise(words))
    assert {
        ("--network", "none"),
        ("--user", "7:7"),
        ("--cap-drop", "ALL"),
        ("--security-opt", "no-new-privileges"),
        ("--memory", str(576 << 20)),
        ("--memory-swap", str(576 << 20)),
        ("--pids-limit", "72"),
        ("--cpus", "1"),
        ("--log-driver", "none"),
        ("--pull", "never"),
        ("--label", f"heeler.sandbox={engine.owner}"),
        ("--mount", 'type=bind,"source=/a,b",target=/workspace'),
        ("--mount", 'type=bind,"source=/packages",target=/packages,readonly'),
    } <= pairs
    assert {"--read-only", "--rm"} <= set(words)
    assert user_of(None) == "65534:65534"
    assert user_of(Workspace("/a")) == f"{os.getuid()}:{os.getgid()}"
    assert mount('/"', "/x") == 'type=bind,"source=/""",target=/x'
    monkeypatch.setenv("HEELER_PASSWORD", "secret")
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/docker.sock")
    assert passed_on()["DOCKER_HOST"] == "unix:///run/docker.sock"
    assert "HEELER_PASSWORD" not in passed_on()


def test_whose_a_container_is() -> None:
    mine = owner(os.getpid())
    machine, pid, began = mine.split("/")
    assert not is_dead(mine)
    assert is_dead(f"{machine}/{pid}/{int(began) + 1}"), "another process has the number now"
    assert is_dead(f"{machine}/4194305/1")
    assert not is_dead(f"other-{machine}/{pid}/1")
    assert not is_dead("")
    assert last_line(b"one\ntwo\nSee 'docker run --help'.\n") == "two"


async def test_only_what_the_engine_tells_ends_a_container() -> None:
    sandbox = ContainerProcess(ContainerEngine("python", "none"), Cleanup(), None, "")
    sandbox.keep_output(4)
    sandbox.hear(b"O", b"X\0\0\0\2{}")
    assert not sandbox.ended
    assert sandbox.stdout.text() == "X\0\0\0\n... (cut after 4 bytes)"
    ended = b'{"code": 0, "cpu_seconds": 1.5, "memory_bytes_max": 3, "out_of_memory": true}'
    sandbox.hear(b"X", ended)
    assert sandbox.ended
    assert sandbox.over.result().out_of_memory


def test_the_operator_chooses() -> None:
    chosen = ToolsSettings.from_environment({"HEELER_SANDBOX": "container"})
    sandbox = sandbox_of(chosen, workspaces="", packages="")
    assert isinstance(sandbox, ContainerSandbox)
    assert (sandbox.image, sandbox.network) == ("python:3.12-slim", "none")
    other = {"HEELER_SANDBOX_IMAGE": "local/image:1", "HEELER_SANDBOX_NETWORK": "tools"}
    sandbox = sandbox_of(
        ToolsSettings.from_environment({"HEELER_SANDBOX": "container", **other}),
        workspaces="",
        packages="",
    )
    assert isinstance(sandbox, ContainerSandbox)
    assert (sandbox.image, sandbox.network) == ("local/image:1", "tools")
    assert isinstance(sandbox_of(ToolsSettings(), workspaces="", packages=""), ProcessSandbox)
    for name in ("HEELER_SANDBOX_IMAGE", "HEELER_SANDBOX_NETWORK"):
        with pytest.raises(WrongSetting, match=name):
            ToolsSettings.from_environment({name: "--privileged"})
