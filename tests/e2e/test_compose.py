"""`make up MODE=compose`: what one tells an agent in containers is known after they died."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from deploy.containers.project import Project, read_env
from deploy.embedded.api_health import read_health
from deploy.embedded.settings import CHECKOUT, SERVICES, Settings
from libs.contracts.version import HEELER_VERSION
from tests.e2e.asking import SECONDS_MAX, says
from tests.engine import provide_packages, require_containers
from tests.ports import free_port
from tests.servers import delete_home, permission_violations, temporary_home, wait_until

pytestmark = pytest.mark.timeout(1800)  # a busy machine builds the images for minutes
MAKE_SECONDS_MAX = 900
RESTART_SECONDS_MAX = 120
FREED = "the leases of the process before are free"
OWNERS_OF_POSTGRES = """
for process in /proc/[0-9]*; do
    test "$(cat $process/comm 2>/dev/null)" = postgres && stat -c %U $process
done; true
"""
# They run inside of sandboxes, by themselves.
PROGRAMS = [
    f"services.tools.sandbox.{name}" for name in ("container_init", "program_executor", "spawner")
]
IMPORT_ALL = f"""
import importlib, pkgutil, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    for found in pkgutil.walk_packages(package.__path__, f"{{name}}."):
        if found.name not in {PROGRAMS}:
            importlib.import_module(found.name)
"""


ADD = '''
def add(first: int, second: int) -> int:
    """Add two numbers.

    Args:
        first (int): one
        second (int): the other
    """
    return first + second
'''


class Composed:
    """A compose project of its own, driven as a person would."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_port()
        self.project = Project(Settings(home=home, host="127.0.0.1", port=self.port))

    def make(self, target: str, *words: str, **environment: str) -> str:
        done = self.try_make(target, *words, **environment)
        assert done.returncode == 0, f"make {target}:\n{done.stdout}{done.stderr}"
        return done.stdout

    def try_make(
        self, target: str, *words: str, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        ours = ("HEELER_", "OPENAI_", "ANTHROPIC_", "LETTA_", "MAKE", "MFLAGS")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
        place = {"HEELER_HOME": str(self.home), "HEELER_PORT": str(self.port)}
        return subprocess.run(
            ["make", target, "MODE=compose", *words],
            cwd=CHECKOUT,
            env=kept | place | environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=MAKE_SECONDS_MAX,
        )

    def letta(self) -> Letta:
        url = f"http://127.0.0.1:{self.port}"
        return Letta(base_url=url, api_key="none", timeout=SECONDS_MAX)

    def run_tool(self) -> dict[str, Any]:
        """What the code of a client's tool returned."""
        body = {"source_code": ADD, "args": {"first": 2, "second": 3}}
        url = f"http://127.0.0.1:{self.port}/v1/tools/run"
        answer: dict[str, Any] = httpx.post(url, json=body, timeout=SECONDS_MAX).json()
        return answer

    def passwords(self) -> list[str]:
        """Everything that nobody else should read."""
        known = read_env(self.project.env_file)
        return [word for name, word in known.items() if name.endswith("_PASSWORD")]

    def well(self) -> bool:
        return read_health("127.0.0.1", self.port).all_ok

    def engine_says_well(self) -> bool:
        """Whether the health check in every container has passed."""
        return all(container.well for container in self.project.containers())

    def containers(self) -> dict[str, str]:
        """The names of the containers by what they are."""
        return {container.part: container.name for container in self.project.containers()}


def docker(*words: str) -> str:
    return subprocess.run(
        ["docker", *words], check=True, capture_output=True, text=True, timeout=SECONDS_MAX
    ).stdout


@pytest.fixture(scope="module")
def composed() -> Iterator[Composed]:
    require_containers()
    provide_packages()
    composed = Composed(temporary_home())
    try:
        yield composed
        assert permission_violations(logs_of(composed.containers()["nats"])) == []
    finally:
        composed.make("wipe")
        delete_home(composed.home)


@pytest.fixture(scope="module")
def running(composed: Composed) -> Composed:
    told = composed.make("up")
    assert f"http://127.0.0.1:{composed.port}\n" in told
    assert not [word for word in composed.passwords() if word in told]
    return composed


def test_what_one_tells_an_agent_in_containers_is_known_after_they_died(running: Composed) -> None:
    with running.letta() as letta:
        agent = letta.agents.create(
            model="demo/offline", memory_blocks=[{"label": "human", "value": ""}]
        )
        letta.agents.messages.create(agent.id, messages=says("My cat is called Whiskers"))
        before = [message.to_dict() for message in letta.agents.messages.list(agent.id)]
        for part in ("agent", "postgres", "nats"):
            kill9(running.containers()[part])
        wait_until("all is healthy after the deaths", running.well, RESTART_SECONDS_MAX)
        assert FREED in logs_of(running.containers()["agent"])
        assert [message.to_dict() for message in letta.agents.messages.list(agent.id)] == before

        running.make("down")
        running.make("up")

        assert [message.to_dict() for message in letta.agents.messages.list(agent.id)] == before
        asked = letta.agents.messages.create(agent.id, messages=says("What is my cat called?"))
        assert "Whiskers" in str(asked.messages[-1].content)  # type: ignore[union-attr]


def logs_of(container: str) -> str:
    done = subprocess.run(["docker", "logs", container], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def kill9(container: str) -> None:
    """Kill what runs in a container, as a crash would, and wait until the engine started it anew.

    `docker kill` would not do: what a person stops stays stopped.
    """

    def restarts() -> int:
        return int(docker("inspect", "--format", "{{.RestartCount}}", container))

    before = restarts()
    user = docker("inspect", "--format", "{{.Config.User}}", container).strip() or "postgres"
    command = ["docker", "exec", "--user", user, container, "sh", "-c", "kill -9 -1"]
    subprocess.run(command, capture_output=True, check=False)  # it kills itself too
    wait_until(f"{container} restarted", lambda: restarts() > before, RESTART_SECONDS_MAX)


def test_every_container_becomes_healthy_and_nats_refuses_nobody(running: Composed) -> None:
    wait_until("every health check passes", running.engine_says_well, RESTART_SECONDS_MAX)
    assert permission_violations(logs_of(running.containers()["nats"])) == []


@pytest.mark.parametrize(
    ("sandbox", "granted"),
    [("process", "bubblewrap: namespaces of its own"), ("process-unconfined", "no wall")],
)
def test_custom_tools_run_where_the_person_says_how(
    running: Composed, sandbox: str, granted: str
) -> None:
    refused = running.run_tool()
    assert "process-unconfined" in str(refused), "the refusal says what to do"
    running.make("up", HEELER_SANDBOX=sandbox)

    tools = running.containers()["tools"]  # the engine's logs come a moment later
    wait_until(f"it says {granted}", lambda: granted in logs_of(tools), RESTART_SECONDS_MAX)
    assert running.run_tool()["tool_return"] == "5"

    running.make("up")
    assert running.run_tool() == refused, "without the word it is as it was"


def test_nothing_runs_as_root_or_may_write_where_it_need_not(running: Composed) -> None:
    for part, container in running.containers().items():
        [inspected] = json.loads(docker("inspect", container))
        assert inspected["HostConfig"]["ReadonlyRootfs"], part
        assert inspected["HostConfig"]["CapDrop"] == ["ALL"], part
        if part != "postgres":
            assert inspected["Config"]["User"] == "heeler", part
    owners = docker("exec", running.containers()["postgres"], "sh", "-c", OWNERS_OF_POSTGRES)
    assert set(owners.split()) == {"postgres"}


def test_only_the_api_and_nats_are_published_and_only_on_loopback(running: Composed) -> None:
    published = {
        part: docker("port", container).split(" -> ")
        for part, container in running.containers().items()
    }
    assert published["api"] == ["8283/tcp", f"127.0.0.1:{running.port}\n"]
    assert published["nats"][1].startswith("127.0.0.1:")
    for part in ("postgres", *(service for service in SERVICES if service != "api")):
        assert published[part] == [""], part


def test_status_names_what_is_down(running: Composed) -> None:
    def is_healthy() -> bool:
        return bool(json.loads(running.try_make("status", "ARGS=--json").stdout)["healthy"])

    wait_until("status says that all is healthy", is_healthy, RESTART_SECONDS_MAX)
    docker("stop", "--time", "10", running.containers()["memory"])
    done = running.try_make("status")
    assert done.returncode != 0
    assert "memory" in [line.split()[0] for line in lines_with(done.stdout, "exited")]
    docker("start", running.containers()["memory"])
    wait_until("all is healthy", running.well, RESTART_SECONDS_MAX)


def test_the_database_is_dumped_while_it_serves(running: Composed) -> None:
    file = running.home / "heeler.dump"
    running.make("dump", f"FILE={file}")
    assert file.read_bytes().startswith(b"PGDMP")
    done = running.try_make("restore", f"FILE={file}")
    assert done.returncode != 0
    assert "This home has agents" in done.stderr, "a restore would delete them"


def lines_with(text: str, word: str) -> list[str]:
    return [line for line in text.splitlines() if word in line]


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_has_every_package_that_its_service_imports(
    running: Composed, service: str
) -> None:
    image = f"heeler-{service}:{HEELER_VERSION}"
    packages = [f"services.{service}", *libraries_of(CHECKOUT / "services" / service)]
    docker("run", "--rm", "--network=none", image, "python", "-c", IMPORT_ALL, *packages)


def libraries_of(member: Path) -> list[str]:
    """The packages of libs that a member of the workspace depends on, directly or not."""
    declared = tomllib.loads((member / "pyproject.toml").read_text())["project"]["dependencies"]
    own = [CHECKOUT / "libs" / name for name in declared if (CHECKOUT / "libs" / name).is_dir()]
    found = {f"libs.{path.name}" for path in own}
    return sorted(found.union(*(libraries_of(path) for path in own)))


def test_an_open_address_without_a_password_is_refused(composed: Composed) -> None:
    done = composed.try_make("up", HEELER_HOST="0.0.0.0")
    assert done.returncode != 0
    assert "HEELER_HOST=0.0.0.0 can be reached from other machines" in done.stderr
