"""Fleets over HTTP and by the command: plans, applies that survive the death of their process, the
way back, and whose agents are whose."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from letta_client import Letta

from tests.e2e.asking import says, unique
from tests.e2e.test_fleet import AGENT, agent_named, begin, write_agent
from tests.heeler_command import HeelerCommand
from tests.servers import HeelerInstance
from tests.waiting import wait_for

AGENTS = 30


def fleet_folder(command: HeelerCommand, folder: Path, name: str) -> Path:
    """A folder that says which fleet it is."""
    folder.mkdir(parents=True, exist_ok=True)
    command("fleet", "init", str(folder), "--name", name)
    return folder


def fleet_named(http: httpx.Client, name: str) -> Any:
    """The fleet of that name."""
    (found,) = [each for each in http.get("/v1/fleets").json() if each["name"] == name]
    return found


def applies_of(http: httpx.Client, fleet_id: str) -> list[Any]:
    """What was applied of a fleet, the newest first."""
    found: list[Any] = http.get(f"/v1/fleets/{fleet_id}/applies").json()
    return found


def members_of(http: httpx.Client, fleet_id: str) -> dict[str, str]:
    """What a fleet owns: ids by keys."""
    found = http.get(f"/v1/fleets/{fleet_id}/members").json()
    return {f"{each['kind']} {each['key']}": each["id"] for each in found}


async def test_an_apply_whose_process_dies_goes_on_and_makes_no_agent_twice(
    heeler_command: HeelerCommand, heeler: HeelerInstance, http: httpx.Client, tmp_path: Path
) -> None:
    name = unique("killed")
    folder = fleet_folder(heeler_command, tmp_path / name, name)
    names = [f"{name}-{number}" for number in range(AGENTS)]
    for each in names:
        write_agent(folder, each, AGENT + '[[groups]]\nname = "{name}"\n')

    def there() -> list[Any]:
        query = {"query_text": name, "limit": 1000}
        found: list[Any] = http.get("/v1/agents/", params=query).json()
        return found

    applying = begin("apply", "-f", str(folder))
    for number in (3, 12):
        await wait_for("some agents", lambda number=number: len(there()) >= number)
        died = heeler.kill9("api")
        heeler.wait_restarted("api", died)
        heeler.wait_healthy()
    applying.wait()
    fleet = fleet_named(http, name)
    await wait_for("its end", lambda: applies_of(http, fleet["id"])[0]["status"] == "completed")
    assert sorted(agent["name"] for agent in there()) == sorted(names)
    assert applies_of(http, fleet["id"])[0]["counts"] == {"created": 2 * AGENTS}
    owned = members_of(http, fleet["id"])
    assert {owned[f"agent {each}.toml"] for each in names} == {agent["id"] for agent in there()}
    summary = heeler_command.json("apply", "-f", str(folder))["summary"]
    assert (summary["unchanged"], summary["failed"]) == (AGENTS, 0)


def test_an_undo_gives_back_agents_with_all_that_they_were(
    heeler_command: HeelerCommand, http: httpx.Client, letta: Letta, tmp_path: Path
) -> None:
    name = unique("undone")
    folder = fleet_folder(heeler_command, tmp_path / name, name)
    kept, gone, new = (f"{name}-{word}" for word in ("kept", "gone", "new"))
    write_agent(folder, kept)
    file = write_agent(folder, gone)
    heeler_command("apply", "-f", str(folder))
    before = agent_named(http, gone)
    letta.agents.messages.create(before["id"], messages=says("Whiskers is a cat"))
    letta.agents.blocks.update("human", agent_id=before["id"], value="Has a cat")
    file.unlink()
    write_agent(folder, kept, AGENT.replace("You are", "You were"))
    write_agent(folder, new)
    told = heeler_command("apply", "-f", str(folder), "--prune", "--yes")
    assert f"heeler agents fork {before['id']} --at " in told.err
    assert http.get(f"/v1/agents/{before['id']}").status_code == 404

    fleet = fleet_named(http, name)
    apply_id = applies_of(http, fleet["id"])[0]["id"]
    shown = heeler_command("fleet", "undo", apply_id, "--fleet", name, "--yes").out
    assert f"to create: {gone}" in shown
    assert f"to delete: {new}" in shown
    assert agent_named(http, kept)["system"] == f"You are {kept}."
    assert http.get("/v1/agents/", params={"name": new}).json() == []
    again = agent_named(http, gone)
    blocks = http.get(f"/v1/agents/{again['id']}/core-memory/blocks").json()
    assert [block["value"] for block in blocks] == ["Has a cat"]
    assert "Whiskers is a cat" in http.get(f"/v1/agents/{again['id']}/messages").text
    assert members_of(http, fleet["id"])[f"agent {gone}.toml"] == again["id"]
    (newest, *_) = applies_of(http, fleet["id"])
    assert (newest["undoes"], newest["status"]) == (apply_id, "completed")
    refused = http.post(f"/v1/fleets/{fleet['id']}/plans", json={"undo": newest["id"]})
    assert (refused.status_code, "apply the files again" in refused.text) == (409, True)


def test_a_plan_is_refused_where_something_changed_since(
    heeler_command: HeelerCommand, http: httpx.Client, tmp_path: Path
) -> None:
    name = unique("stale")
    folder = fleet_folder(heeler_command, tmp_path / name, name)
    write_agent(folder, name)
    heeler_command("apply", "-f", str(folder))
    write_agent(folder, name, AGENT.replace("You are", "You were"))
    plan = tmp_path / "plan.json"
    assert heeler_command.run("diff", "-f", str(folder), "-o", str(plan)).code == 1
    agent = agent_named(http, name)
    http.patch(f"/v1/agents/{agent['id']}", json={"system": "By hand"})
    refused = heeler_command.run("apply", str(plan), "--yes")
    assert (refused.code, f"agent '{name}' changed since" in refused.err) == (4, True)
    assert agent_named(http, name)["system"] == "By hand"
    assert heeler_command.run("diff", "-f", str(folder), "-o", str(plan)).code == 1
    assert f"changed {name}" in heeler_command("apply", str(plan), "--yes").out
    assert agent_named(http, name)["system"] == f"You were {name}."


def test_fleets_are_made_read_and_forgotten_over_http(
    heeler_command: HeelerCommand, http: httpx.Client, tmp_path: Path
) -> None:
    name = unique("read")
    folder = fleet_folder(heeler_command, tmp_path / name, name)
    write_agent(folder, name)
    heeler_command("apply", "-f", str(folder))
    fleet = fleet_named(http, name)
    path = f"/v1/fleets/{fleet['id']}"
    same = http.post("/v1/fleets", json={"key": fleet["key"], "name": name})
    assert same.json() == fleet == http.get(path).json()
    agent = agent_named(http, name)
    owner = http.get(f"/v1/agents/{agent['id']}/fleet").json()
    assert (owner["fleet_id"], owner["fleet"], owner["key"]) == (fleet["id"], name, f"{name}.toml")
    (apply,) = applies_of(http, fleet["id"])
    assert http.get(f"{path}/applies/{apply['id']}").json() == apply
    (unit,) = http.get(f"{path}/applies/{apply['id']}/units").json()
    assert (unit["name"], unit["id"], unit["result"]) == (name, agent["id"], "created")
    plan = http.get(f"{path}/plans/{apply['plan_id']}").json()
    assert plan["summary"]["created"] == 1
    missing = fleet["id"][:-4] + "0000"
    for route in ("", "/members", "/applies"):
        assert http.get(f"/v1/fleets/{missing}{route}").status_code == 404
    assert http.post(f"/v1/fleets/{missing}/plans", json={}).status_code == 404
    unknown = {"plan_id": apply["plan_id"][:-4] + "0000"}
    assert http.post(f"{path}/applies", json=unknown).status_code == 404
    wrong = http.post(f"{path}/plans", json={"agents": [{"nam": "x"}]})
    assert (wrong.status_code, "agents" in wrong.text) == (422, True)
    other = fleet_named(http, name) and http.post(
        "/v1/fleets", json={"key": unique("other"), "name": "other"}
    )
    foreign = f"/v1/fleets/{other.json()['id']}"
    assert http.get(f"{foreign}/applies/{apply['id']}").status_code == 404
    assert http.get(f"{foreign}/plans/{apply['plan_id']}").status_code == 404
    again = http.post(f"{foreign}/applies", json={"plan_id": apply["plan_id"]})
    assert again.status_code == 404
    key = {"idempotency-key": unique("key")}
    plans = [http.post(f"{path}/plans", json={}).json()["id"] for _ in range(2)]
    first, again, third = (
        http.post(f"{path}/applies", json={"plan_id": plan}, headers=key)
        for plan in (plans[0], plans[0], plans[1])
    )
    assert (first.status_code, again.json()["id"]) == (202, first.json()["id"])
    assert (third.status_code, "another plan" in third.text) == (409, True)
    while http.get(path).json()["applying"]:  # as long as the test may take
        time.sleep(0.02)
    assert http.delete(path).status_code == 200
    assert http.get(path).status_code == 404
    assert http.get(f"/v1/agents/{agent['id']}").status_code == 200, "its agents stay"
    assert http.get(f"/v1/agents/{agent['id']}/fleet").json()["fleet_id"] is None


def test_dev_and_prod_share_files(
    heeler_command: HeelerCommand,
    heeler: HeelerInstance,
    http: httpx.Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = unique("shared")
    folder = fleet_folder(heeler_command, tmp_path / name, name)
    settings = folder / "heeler-fleet.toml"
    environment = f"""
[environments.prod]
server = "{heeler.base_url}"
rules = "development"
prune_max = 0
variables = {{ TOKEN = "${{PROD_TOKEN}}" }}
"""
    settings.write_text(settings.read_text() + environment)
    monkeypatch.setenv("PROD_TOKEN", "of-prod")
    monkeypatch.setenv("TOKEN", "of-dev")
    write_agent(folder, name, AGENT + '[secrets]\nTOKEN = "${{TOKEN}}"\n')
    heeler_command("apply", "-f", str(folder), "-e", "prod")
    agent = http.get(
        f"/v1/agents/{agent_named(http, name)['id']}", params={"include": "agent.secrets"}
    ).json()
    assert [(each["key"], each["value"]) for each in agent["secrets"]] == [("TOKEN", "of-prod")]
    plan = heeler_command.run("diff", "-f", str(folder), "--json")
    changes = plan.json["agents"][0]["changes"]
    assert changes == [
        {"field": "secrets", "before": "(secret)", "after": "(secret)", "overwrites": False}
    ]
    assert "of-" not in json.dumps(plan.json)
    (folder / f"{name}.toml").rename(folder / "kept.toml")
    write_agent(folder, f"{name}-2")
    heeler_command("apply", "-f", str(folder), "-e", "prod")
    (folder / f"{name}-2.toml").unlink()
    refused = heeler_command.run("apply", "-f", str(folder), "-e", "prod", "--prune", "--yes")
    assert (refused.code, "--prune-max 1" in refused.err) == (4, True)
