"""Letta Code's `letta cron` on the schedules of this server.

The releases of the other tests keep schedules in a file of their own and ask no server. This one
asks; its packages cannot all be had, but this command needs `ws` alone, which the others have."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.conftest import NewAgent
from tests.e2e.node import INSTALL_SECONDS_MAX, LETTA_CODE, Node, installed, npm
from tests.servers import HeelerInstance, wait_until

RELEASE = "0.32.18"
OPERATIONS = "/v1/agents/{agent_id}/schedule"
ONE = f"{OPERATIONS}/{{scheduled_message_id}}"
INTEGRITY = (
    "sha512-PkpJewqQAQq5faHW4wIfmbKyIMCapiIVbsYhXs9CalB1"
    "oyUzV8Gg7+ZhhjK52PdSNgP20juc2KP2pQEPfmA6SQ=="
)
COMMAND_SECONDS_MAX = 60
SECONDS_MAX = 40.0

pytestmark = pytest.mark.timeout(INSTALL_SECONDS_MAX + 12 * COMMAND_SECONDS_MAX)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> tuple[Node, Path]:
    """Node, and the release as npm has it."""
    node, folder = installed(LETTA_CODE), tmp_path_factory.mktemp("letta-code")
    packed = npm(node, folder, "pack", f"@letta-ai/letta-code@{RELEASE}", "--json")
    if packed.returncode:
        pytest.skip(f"NO LETTA CODE {RELEASE}: npm does not answer: {packed.stderr[-500:]}")
    [package] = json.loads(packed.stdout)
    assert package["integrity"] == INTEGRITY
    with tarfile.open(folder / package["filename"]) as archive:
        archive.extractall(folder, filter="data")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "ws").symlink_to(LETTA_CODE / "node_modules" / "ws")
    return node, folder / "package" / "letta.js"


class Cron:
    """`letta cron` for one agent, in a home of its own."""

    def __init__(self, program: tuple[Node, Path], base_url: str, agent_id: str, home: Path):
        self.node, self.letta = program
        self.agent_id = agent_id
        self.home = home
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        self.environment = {
            **kept,
            "HOME": str(home),
            "LETTA_BASE_URL": base_url,
            "LETTA_API_KEY": "any",
            "DISABLE_AUTOUPDATER": "1",
            "LETTA_CODE_TELEM": "0",
        }

    def __call__(self, *words: str) -> Any:
        """What a command says, which is JSON."""
        done = subprocess.run(
            [self.node.node, str(self.letta), "cron", *words, "--agent", self.agent_id],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)


@pytest.mark.operation(f"POST {OPERATIONS}", client=f"Letta Code {RELEASE}")
@pytest.mark.operation(f"GET {OPERATIONS}", client=f"Letta Code {RELEASE}")
@pytest.mark.operation(f"GET {ONE}", client=f"Letta Code {RELEASE}")
@pytest.mark.operation(f"DELETE {ONE}", client=f"Letta Code {RELEASE}")
def test_letta_code_creates_lists_and_removes_schedules_here(
    heeler: HeelerInstance,
    letta: Letta,
    http: httpx.Client,
    new_agent: NewAgent,
    program: tuple[Node, Path],
    tmp_path: Path,
) -> None:
    agent = new_agent()
    cron = Cron(program, heeler.base_url, agent.id, tmp_path)
    said = ("--description", "Says hello", "--prompt", "SAY:Hello from a schedule.")
    here = ("--runner", "cloud")
    every_hour = cron("add", "--name", "hourly", *said, "--every", "1h", *here)
    once = cron(
        "add", "--name", "once", *said, "--at", "in 45m", "--conversation", "default", *here
    )
    listed = {item["id"]: item for item in cron("list", *here)}
    assert listed.keys() == {every_hour["id"], once["id"]}
    item = listed[every_hour["id"]]
    assert (item["name"], item["description"]) == ("hourly", "Says hello")
    assert (item["prompt"], item["conversation_id"]) == ("SAY:Hello from a schedule.", "new")
    assert item["schedule"] == {"type": "recurring", "cron_expression": "0 */1 * * *"}
    assert listed[once["id"]]["conversation_id"] == "default"
    assert listed[once["id"]]["schedule"] == once["schedule"]
    assert cron("get", every_hour["id"], *here) == item
    ids = {each.id for each in letta.agents.schedule.list(agent.id).scheduled_messages}
    assert ids == listed.keys()

    http.post(f"/v1/agents/{agent.id}/schedule/{every_hour['id']}/fire").raise_for_status()

    def has_fired() -> bool:
        entries = cron("runs", "--id", every_hour["id"], *here)["entries"]
        # Two, where the hour has begun meanwhile.
        return {entry["status"] for entry in entries} == {"completed"}

    wait_until("the history of a firing", has_fired, SECONDS_MAX)
    conversation = letta.conversations.list(agent_id=agent.id)[0]
    assert conversation.summary == "hourly"
    messages: list[Any] = letta.conversations.messages.list(conversation.id).items
    assert "Hello from a schedule." in [
        message.content for message in messages if message.message_type == "assistant_message"
    ]

    assert cron("delete", every_hour["id"], *here)["deleted"] == every_hour["id"]
    assert [item["id"] for item in cron("list", *here)] == [once["id"]]
    cron("delete", "--all", *here)
    assert cron("list", *here) == []
    assert letta.agents.schedule.list(agent.id).scheduled_messages == []
    gone = http.get(f"/v1/agents/{agent.id}/schedule/{every_hour['id']}")
    assert gone.status_code == 404
