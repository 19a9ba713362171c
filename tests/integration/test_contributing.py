"""What CONTRIBUTING.md tells to do is enough: a copy of the project with just its edits works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.e2e.asking import MODEL, NOBODY, says
from tests.integration.copied_project import copied_project
from tests.scripted_model import ScriptedModelProcess
from tests.servers import HeelerInstance
from tests.walks import CHECKOUT, commands, walks

RECORDED = (
    "tests/unit/agent_document",
    "tests/unit/agent_toml/test_generated_pages.py",
    "tests/unit/letta/test_letta_states.py",
    "tests/unit/letta/test_limits.py",
    "tests/contract/test_golden_messages.py",
    "tests/contract/test_state_versions.py",
)
ADDED = {"services/counter", "libs/contracts/counter"}
# The example of an added service is a copy in which nothing is recorded of it.
NOT_FOR_COUNTERS = (
    "test_golden_messages.py::test_every_message_has_an_example",
    "test_state_versions.py::test_each_aggregate_has_a_history_and_each_event_happens_in_one",
)


@pytest.fixture(scope="module")
async def model() -> AsyncIterator[ScriptedModelProcess]:
    async with ScriptedModelProcess() as process:
        yield process


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project after all walks."""
    copy = copied_project(tmp_path_factory.mktemp("walks"))
    for name in ("tests", "docs"):
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(CHECKOUT / name, copy / name, ignore=ignored)
    shutil.copy(CHECKOUT / "pyproject.toml", copy)
    for edits in walks().values():
        for edit in edits:
            edit.apply(copy)
    return copy


@pytest.fixture(scope="module")
def heeler(project: Path, model: ScriptedModelProcess) -> Iterator[HeelerInstance]:
    env = {"OPENAI_API_BASE": model.base_url, "OPENAI_API_KEY": "any"}
    with HeelerInstance(checkout=project, env=env) as instance:
        yield instance


@pytest.fixture(scope="module")
def http(heeler: HeelerInstance) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=heeler.base_url, timeout=30) as client:
        yield client


def test_the_lints_take_the_edits(project: Path) -> None:
    touched = {edit.path for edits in walks().values() for edit in edits} | ADDED
    for check in (
        [".venv/bin/ruff", "check", "--no-cache", *sorted(touched)],
        [".venv/bin/ruff", "format", "--check", "--no-cache", *sorted(touched)],
        [".venv/bin/python", "-m", "tests.plain_english", *sorted(touched)],
    ):
        done = subprocess.run(check, cwd=project, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_with_the_commands_of_the_page_the_tests_of_what_is_recorded_pass(project: Path) -> None:
    without = [f"--deselect=tests/contract/{name}" for name in NOT_FOR_COUNTERS]
    check = [".venv/bin/python", "-m", "pytest", "-q", *without, *RECORDED]
    outside = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    for command in (*commands(), check):
        done = subprocess.run(command, cwd=project, env=outside, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_field_of_agents_is_set_listed_filtered_by_changed_and_cleared(
    http: httpx.Client,
) -> None:
    def create(**fields: str) -> str:
        created = http.post("/v1/agents", json={"model": MODEL, **fields})
        assert created.json()["nickname"] == fields.get("nickname"), created.text
        return str(created.json()["id"])

    def with_nickname(nickname: str) -> list[tuple[str, str]]:
        listed = http.get("/v1/agents", params={"nickname": nickname}).json()
        return [(agent["id"], agent["nickname"]) for agent in listed]

    plain, ada = create(), create(nickname="Countess")
    assert with_nickname("Countess") == [(ada, "Countess")]
    assert http.patch(f"/v1/agents/{plain}", json={"nickname": "Plain"}).is_success
    assert with_nickname("Plain") == [(plain, "Plain")]
    assert http.patch(f"/v1/agents/{ada}", json={"nickname": None}).is_success
    assert with_nickname("Countess") == []
    assert http.get(f"/v1/agents/{ada}").json()["nickname"] is None
    assert http.post("/v1/agents", json={"model": MODEL, "nickname": 7}).status_code == 422


def test_a_field_of_agents_survives_every_form(
    http: httpx.Client, heeler: HeelerInstance, tmp_path: Path
) -> None:
    fields = {"model": MODEL, "name": "ada", "nickname": "Lovelace", "system": "Be kind."}
    ada = http.post("/v1/agents", json=fields).json()
    path = f"/v1/agents/{ada['id']}"

    def command(*words: str) -> None:
        run = [heeler.python, "-m", "cli", *words]
        subprocess.run(run, cwd=heeler.checkout, env=heeler.environment(), check=True)

    def imported(file: bytes, **options: str) -> str:
        answer = http.post("/v1/agents/import", files={"file": ("ada", file)}, data=options)
        [agent_id] = answer.json()["agent_ids"]
        return str(agent_id)

    def deployed() -> str:
        body = {"type": "agent", "agent_id": ada["id"], "name": "countesses"}
        assert http.post("/v1/templates", json=body).is_success
        [agent_id] = http.post("/v1/templates/countesses:1/agents", json={}).json()["agent_ids"]
        return str(agent_id)

    def applied() -> str:
        command("export", ada["id"], "--to", str(tmp_path))
        file = tmp_path / "ada.toml"
        there = file.read_text().replace('name = "ada"', 'name = "eda"', 1)
        for nickname in ("Duchess", None, "Lovelace"):
            line = f'nickname = "{nickname}"\n' if nickname else ""
            file.write_text(there.replace('nickname = "Lovelace"\n', line))
            command("apply", "-f", str(tmp_path), "--yes")
            [eda] = http.get("/v1/agents", params={"name": "eda"}).json()
            assert eda["nickname"] == nickname
        return str(eda["id"])

    made = {
        "agent file": imported(http.get(f"{path}/export").content),
        "whole export": imported(
            http.get(f"{path}/export", params={"format": "heeler"}).content, conflicts="copy"
        ),
        "fork": http.post(f"{path}/fork", json={}).json()["id"],
        "template": deployed(),
        "TOML": applied(),
    }
    for form, agent_id in made.items():
        assert http.get(f"/v1/agents/{agent_id}").json()["nickname"] == "Lovelace", form
    before = datetime.now(UTC).isoformat()
    assert http.patch(path, json={"nickname": None}).json()["nickname"] is None
    assert http.get(path, params={"at": before}).json()["nickname"] == "Lovelace"


def test_a_built_in_tool_is_attached_by_name_and_called(http: httpx.Client) -> None:
    agent = http.post("/v1/agents", json={"model": MODEL, "tools": ["roll_dice"]}).json()
    assert "roll_dice" in [tool["name"] for tool in agent["tools"]]

    text = 'CALL:roll_dice:{"sides": 1} SAY:done'
    reply = http.post(f"/v1/agents/{agent['id']}/messages", json={"messages": says(text)})
    returns = [
        message["tool_return"]
        for message in reply.json()["messages"]
        if message["message_type"] == "tool_return_message"
    ]
    assert returns == ["1"]

    taken = "def roll_dice() -> str:\n    '''Roll.'''\n    return '7'\n"
    assert http.post("/v1/tools", json={"source_code": taken}).status_code == 409


def test_a_resource_is_created_listed_filtered_and_retrieved(http: httpx.Client) -> None:
    counter = http.post("/v1/counters").json()
    assert counter == {"id": counter["id"], "total": 1}

    assert http.get("/v1/counters").json() == [counter]
    assert http.get("/v1/counters", params={"total": 1}).json() == [counter]
    assert http.get("/v1/counters", params={"total": 3}).json() == []
    assert http.get(f"/v1/counters/{counter['id']}").json() == counter
    assert http.get(f"/v1/counters/counter-{NOBODY}").status_code == 404
    assert "/v1/counters/{counter_id}" in http.get("/openapi.json").json()["paths"]
