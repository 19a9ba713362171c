"""docs/operations.md does what it says: every block of commands is run, in the order of the page,
in a checkout of its own, with an agent that must remember and keep its secret all the way."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.embedded.settings import CHECKOUT
from tests.operations_page import blocks, missing_programs
from tests.ports import free_port
from tests.servers import delete_home, temporary_home, wait_until

pytestmark = pytest.mark.timeout(600)
COMMANDS_SECONDS_MAX = 240
SECONDS_MAX = 60
BLOCKS = blocks("sh")
PORT_OF_RESTORED = "8290"
NOT_NUMBERED = "select (select count(*) from agent.events) > (select max(position) from agent.log)"
SECRET = {"LETTER": "sealed"}


class Operated:
    """A checkout with its own `.heeler`, worked on by what the page says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "checkout"
        self.port = free_port()
        self.restored_port = free_port()
        self.agent_id = ""
        self._copy()

    def _copy(self) -> None:
        """With compiled modules, and an upstream to pull from."""
        self.checkout.mkdir()
        for name in ("deploy", "libs", "services"):
            skipped = shutil.ignore_patterns("*.whl")
            shutil.copytree(CHECKOUT / name, self.checkout / name, ignore=skipped)
        for name in ("Makefile", "pyproject.toml", "uv.lock", ".gitignore"):
            shutil.copy2(CHECKOUT / name, self.checkout / name)
        (self.checkout / ".venv").symlink_to(CHECKOUT / ".venv")
        author = "-c user.name=Test -c user.email=test@localhost"
        self.run(f"""
            git init --quiet --initial-branch main && git add Makefile && \
            git {author} commit --quiet --message Release && \
            git clone --quiet --bare . ../upstream && git remote add origin ../upstream && \
            git fetch --quiet && git branch --quiet --set-upstream-to origin/main
        """)

    def run(self, commands: str) -> str:
        """Run a block; what it printed. Raises AssertionError if a command in it fails."""
        foreign = ("HEELER_", "OPENAI_", "ANTHROPIC_", "LETTA_", "MAKE", "MFLAGS", "ARGS", "GIT_")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        done = subprocess.run(
            ["sh", "-euc", commands.replace(PORT_OF_RESTORED, str(self.restored_port))],
            cwd=self.checkout,
            env=kept | {"HEELER_PORT": str(self.port)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMANDS_SECONDS_MAX,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}"
        return done.stdout

    def ask(self, method: str, path: str, *, restored: bool = False, **rest: Any) -> httpx.Response:
        port = self.restored_port if restored else self.port
        return httpx.request(method, f"http://127.0.0.1:{port}{path}", timeout=SECONDS_MAX, **rest)

    def close(self) -> None:
        for home in (".heeler", "restored"):
            if (self.checkout / home).exists():
                self.run(f"make wipe HEELER_HOME={home}")
            delete_home(self.checkout / home)
        delete_home(self.folder)


@pytest.fixture(scope="module")
def operated() -> Iterator[Operated]:
    operated = Operated(temporary_home())
    try:
        yield operated
    finally:
        operated.close()


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


def meet_an_agent(operated: Operated) -> None:
    body = {
        "model": "demo/offline",
        "memory_blocks": [{"label": "human", "value": ""}],
        "secrets": SECRET,
    }
    made = operated.ask("POST", "/v1/agents/", json=body)
    assert made.status_code == 200, made.text
    operated.agent_id = made.json()["id"]
    told = says("My cat is called Whiskers")
    operated.ask("POST", f"/v1/agents/{operated.agent_id}/messages", json=told).raise_for_status()


def the_agent_remembers(operated: Operated, *, restored: bool = False) -> None:
    path = f"/v1/agents/{operated.agent_id}"
    asked = says("What is my cat called?")
    answer = operated.ask("POST", f"{path}/messages", restored=restored, json=asked)
    assert "Whiskers" in answer.json()["messages"][-1]["content"]
    agent = operated.ask("GET", path, restored=restored).json()
    assert {secret["key"]: secret["value"] for secret in agent["secrets"]} == SECRET


def the_restored_agent_remembers(operated: Operated) -> None:
    the_agent_remembers(operated, restored=True)
    ask = f"make -s psql HEELER_HOME=restored ARGS='-tAc \"{NOT_NUMBERED}\"'"
    wait_until("the log goes on", lambda: operated.run(ask).strip() == "f", SECONDS_MAX)
    refused = operated.checkout / "backups" / "heeler.dump"
    with pytest.raises(AssertionError, match="This home has agents"):
        operated.run(f"make restore FILE={refused} HEELER_HOME=restored")


def the_dump_is_for_its_owner_alone(operated: Operated) -> None:
    backups = operated.checkout / "backups"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in backups.iterdir()}
    assert modes == {"heeler.dump": 0o600, "encryption.keys": 0o600}


def only_the_new_password_is_let_in(operated: Operated) -> None:
    password = (operated.checkout / "heeler.password").read_text().strip()
    for word, status in ((password, 200), ("old", 401), ("", 401)):
        headers = {"authorization": f"Bearer {word}"} if word else {}
        assert operated.ask("GET", "/v1/agents/", headers=headers).status_code == status


# What must be so after the block that begins with a command, or has it.
AFTERWARDS: dict[str, Callable[[Operated], None]] = {
    "make up HEELER_PROCESSES=one": meet_an_agent,
    "make dump FILE=backups/heeler.dump": the_dump_is_for_its_owner_alone,
    "make restore": the_restored_agent_remembers,
    "cp -a backups/heeler .heeler": the_agent_remembers,
    "git pull": the_agent_remembers,
    "HEELER_PASSWORD=": only_the_new_password_is_let_in,
}


def test_what_is_looked_at_is_on_the_page() -> None:
    for command in AFTERWARDS:
        assert len([block for block in BLOCKS if command in block]) == 1, command


@pytest.mark.parametrize("block", BLOCKS, ids=[block.splitlines()[0][:40] for block in BLOCKS])
def test_the_commands_of_the_page_do_what_it_says(operated: Operated, block: str) -> None:
    if missing := missing_programs(block):
        pytest.skip(f"not installed here: {', '.join(missing)}")
    operated.run(block)
    for command, holds in AFTERWARDS.items():
        if command in block:
            holds(operated)
