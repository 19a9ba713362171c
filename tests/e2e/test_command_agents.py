"""`heeler agents` against a server: each effect is read back."""

from __future__ import annotations

import re

import httpx
from letta_client import Letta

from cli.exit_codes import ExitCode
from tests.e2e.asking import unique
from tests.e2e.conftest import NewAgent
from tests.heeler_command import HeelerCommand


def test_agents_are_listed_and_shown_by_name_and_id(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    tag = unique("tag")
    agents = [new_agent(name=unique(name), tags=[tag]) for name in ("ada", "bob")]
    listed = heeler_command.json("agents", "list", "--tag", tag)
    assert [agent["id"] for agent in listed] == [agents[1].id, agents[0].id]
    for word in (agents[0].id, agents[0].name):
        assert heeler_command.json("agents", "get", word)["id"] == agents[0].id
    shown = heeler_command("agents", "get", agents[0].name).out
    assert f"name         {agents[0].name}\n" in shown
    assert re.search("^blocks +(human, persona|persona, human)$", shown, re.MULTILINE), shown


def test_a_name_that_two_agents_have_is_refused(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    name = unique("twin")
    ids = {new_agent(name=name).id, new_agent(name=name).id}
    ended = heeler_command.run("agents", "get", name)
    assert (ended.code, ended.out) == (ExitCode.REFUSED, "")
    assert all(agent_id in ended.err for agent_id in ids)


def test_an_unknown_name_suggests_the_one_that_is_meant(
    heeler_command: HeelerCommand, new_agent: NewAgent
) -> None:
    name = unique("whiskers")
    new_agent(name=name)
    ended = heeler_command.run("agents", "get", name.replace("k", "q"))
    assert ended.code == ExitCode.NOT_FOUND
    assert f"did you mean '{name}'?" in ended.err


def test_an_agent_is_deleted_when_one_says_so(
    heeler_command: HeelerCommand, new_agent: NewAgent, http: httpx.Client, letta: Letta
) -> None:
    agent = new_agent()
    assert heeler_command.run("agents", "delete", agent.name).code == ExitCode.USAGE
    assert letta.agents.retrieve(agent.id).name == agent.name
    heeler_command("agents", "delete", agent.name, "--yes")
    assert http.get(f"/v1/agents/{agent.id}").status_code == 404
    assert heeler_command.run("agents", "get", agent.id).code == ExitCode.NOT_FOUND
