"""`heeler test` on real models and on recordings of them."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from letta_client import Letta

from tests.agent_scenarios import AGENT, SCENARIO, agent_folder, agents_left
from tests.e2e.asking import says
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An agent with one scenario, which passes."""
    return agent_folder(tmp_path)


REAL = """
[scenario]
name = "is asked for real"
agent = "real.toml"

[[turns]]
message = 'CALL:memory_insert:{"label": "human", "new_string": "Likes tea"} SAY:Noted.'

[turns.expect]
contains = "Noted"
memory.human.contains = "tea"
cost_usd_max = 0.01

[[turns]]
message = "SAY:Until tomorrow."
expect.contains = "tomorrow"
"""
PRICED = "openai/gpt-4.1-nano"


def test_a_cassette_is_recorded_from_the_real_model_and_says_where_it_went_another_way(
    heeler_command: HeelerCommand, http: httpx.Client, folder: Path
) -> None:
    (folder / "keeps.toml").unlink()
    (folder / "real.toml").write_text(
        AGENT.replace("[[memory]]", f'model = "{PRICED}"\n[[memory]]')
    )
    scenario, cassette = folder / "asked.toml", folder / "asked.cassette.json"
    scenario.write_text(REAL)
    assert "record one with `heeler test --record`" in heeler_command.run("test", str(folder)).out
    [real] = heeler_command.json("test", str(folder), "--real")["cases"]
    assert (real["model"], real["status"]) == ("real", "passed")
    assert 0 < real["cost_usd"] < 0.01
    assert not cassette.exists()
    scenario.write_text(REAL.replace('agent = "real', 'model = "real"\nagent = "real'))
    assert heeler_command.json("test", str(folder))["skipped"] == 1
    scenario.write_text(REAL)
    heeler_command("test", str(folder), "--record")
    assert json.loads(cassette.read_text())["model"] == PRICED
    [replayed] = heeler_command.json("test", str(folder))["cases"]
    assert (replayed["model"], replayed["status"]) == ("cassette", "passed")
    said = [turn["text"] for turn in real["turns"]]
    assert [turn["text"] for turn in replayed["turns"]] == said == ["Noted.", "Until tomorrow."]
    (folder / "real.toml").write_text((folder / "real.toml").read_text().replace("kind", "brief"))
    ended = heeler_command.run("test", str(folder))
    assert "turns[0]: step 1: the model was asked another system prompt" in ended.out
    assert "- Be kind." in ended.out
    assert "+ Be brief." in ended.out
    (folder / "real.toml").write_text((folder / "real.toml").read_text().replace("brief", "kind"))
    scenario.write_text(REAL.replace("SAY:Until", "SAY: Until"))
    ended = heeler_command.run("test", str(folder))
    assert "turns[1]: step 1: the model was asked something else" in ended.out
    assert agents_left(http) == []


def test_runs_that_a_server_has_are_given_again(
    heeler_command: HeelerCommand, letta: Letta, new_agent: NewAgent, folder: Path
) -> None:
    asked = "SAY:It was recorded."
    recorded = letta.agents.messages.create(new_agent().id, messages=says(asked))
    run = recorded.messages[0].run_id
    without_model = SCENARIO[: SCENARIO.index("[[model]]")]
    (folder / "keeps.toml").write_text(
        f'{without_model}cassette = "{run}"\n[[turns]]\nmessage = "{asked}"\n'
        'expect.equals = "It was recorded."\n'
    )
    heeler_command("test", str(folder))
