"""What once deleted, doubled or overwrote agents without anybody having said so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import typer

from cli.exit_codes import CommandError, ExitCode
from cli.fleet import run
from cli.fleet.command import (
    apply_with_progress,
    compare_files,
    confirm_deletions,
    end,
    show_outcomes,
)
from cli.fleet.files import Checks, UnsetVariables, files_of, fleet_of, read_agents
from cli.fleet.server_transport import Refusal
from cli.fleet.settings import FleetEnvironment, values_of
from cli.fleet.view import outcome_line, plan_lines
from libs.agent_document.desired import Block, DesiredAgent
from libs.agent_document.plan import plan_fleet
from libs.agent_document.plan_parts import FleetState, Wanted
from tests.heeler_command import HeelerCommand
from tests.unit.cli.fake_server import FakeServer
from tests.unit.cli.fleets import ADA, Folder
from tests.unit.cli.test_migrate_yaml import WEATHER

HUMAN = '\n[[memory]]\nlabel = "human"\nvalue = "{}"\n'
MCP = '\n[[mcp_servers]]\nname = "notes"\nurl = "https://notes.example.com/mcp"\n'
TEAM = '\n[[groups]]\nname = "team"\n'


def called(name: str) -> str:
    """The file of an agent of this name."""
    return ADA.replace("ada", name)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "agents")


def test_two_folders_of_one_name_are_two_fleets(tmp_path: Path) -> None:
    server = FakeServer()
    first = Folder(tmp_path / "a" / "agents", server, fleet=None)
    second = Folder(tmp_path / "b" / "agents", server, fleet=None)
    first.write("ada.toml", ADA)
    second.write("eve.toml", called("eve"))
    first.apply()
    second.apply()
    with pytest.raises(CommandError, match="heeler fleet init"):
        fleet_of([second.path]).fleet.require("--prune")
    assert server.names() == ["ada", "eve"]


def test_a_fleet_is_not_pruned_from_another_place(tmp_path: Path) -> None:
    server = FakeServer()
    first = Folder(tmp_path / "a" / "agents", server, fleet="agents")
    second = Folder(tmp_path / "b" / "agents", server, fleet="agents")
    first.write("ada.toml", ADA)
    second.write("eve.toml", called("eve"))
    first.apply()
    with pytest.raises(CommandError, match="was made from"):
        second.apply(prune=True)
    assert server.names() == ["ada"]


def test_prune_spares_the_agent_of_a_file_that_was_moved_outside_what_is_applied(
    folder: Folder,
) -> None:
    (folder.path / ".git").mkdir(parents=True)
    ada = folder.write("a/ada.toml", ADA)
    folder.write("a/bob.toml", called("bob"))
    folder.apply()
    before = folder.server.agent("ada")["id"]
    (folder.path / "b").mkdir()
    ada.rename(folder.path / "b" / "ada.toml")
    assert folder.actions(prune=True, paths=[folder.path / "a"]) == {"bob": "unchanged"}
    assert folder.actions(prune=True) == {"bob": "unchanged", "ada": "change"}
    assert folder.server.agent("ada")["id"] == before


def test_prune_of_an_emptied_folder_is_refused(folder: Folder) -> None:
    file = folder.write("ada.toml", ADA)
    folder.apply()
    file.unlink()
    with pytest.raises(CommandError, match="would delete the whole fleet"):
        folder.apply(prune=True)
    assert folder.server.names() == ["ada"]


def test_prune_of_many_is_refused(folder: Folder) -> None:
    files = [folder.write(f"a{n}.toml", called(f"a{n}")) for n in range(10)]
    folder.apply()
    for file in files[:6]:
        file.unlink()
    with pytest.raises(CommandError, match=r"delete 6 of 10 agents, .* --prune-max 6"):
        folder.apply(prune=True)
    assert len(folder.server.agents) == 10
    folder.apply(prune=True, prune_max=6)
    assert len(folder.server.agents) == 4


def test_a_single_file_renames_nothing(folder: Folder) -> None:
    ada = folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    block = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block]["value"] = "Whiskers"
    (folder.path / "x").mkdir()
    ada.rename(folder.path / "x" / "ada.toml")
    other = folder.write("ada.toml", called("eve") + HUMAN.format("I am Eve"))
    (outcome,) = folder.apply(paths=[other])
    assert 'say `was = "ada"` to rename it' in outcome.problems[0]
    assert folder.server.block("ada", "human")["value"] == "Whiskers"
    assert folder.actions() == {"ada": "change", "eve": "create"}
    assert folder.server.block("ada", "human")["value"] == "Whiskers"


def test_a_rename_may_be_said(folder: Folder) -> None:
    file = folder.write("ada.toml", ADA)
    folder.apply()
    before = folder.server.agent("ada")["id"]
    file.unlink()
    new = folder.write("lovelace.toml", f'was = "ada"\n{called("lovelace")}')
    _, comparison = folder.compare(paths=[new])
    assert [*comparison.plan.units[0].words] == ["rename", "move"]
    folder.apply(paths=[new])
    assert folder.server.agent("lovelace")["id"] == before


def test_a_key_stays_where_the_file_moves(folder: Folder) -> None:
    file = folder.write("ada.toml", f'key = "the-clerk"\n{ADA}')
    folder.apply()
    before = folder.server.agent("ada")["id"]
    file.unlink()
    folder.write("x/clerk.toml", f'key = "the-clerk"\n{called("clerk")}')
    assert folder.actions(prune=True) == {"clerk": "change"}
    assert folder.server.agent("clerk")["id"] == before


def test_adopt_keeps_what_agents_of_other_fleets_remember(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply(fleet="theirs")
    block = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block]["value"] = "Whiskers"
    folder.write("ada.toml", ADA + HUMAN.format("Name: Ada"))
    assert folder.actions(adopt=True) == {"ada": "change"}
    assert folder.server.block("ada", "human")["value"] == "Whiskers"
    assert folder.actions() == {"ada": "unchanged"}
    (outcome,) = folder.apply(fleet="theirs")
    assert outcome.plan.action != "change", "it is theirs no more"


def test_two_who_apply_at_once_make_no_agent_twice(tmp_path: Path) -> None:
    server = FakeServer()
    people = [Folder(tmp_path / name / "agents", server, fleet=None) for name in ("a", "b")]
    for person in people:
        person.write("heeler-fleet.toml", 'id = "fleet-1"\nname = "ours"\n')
        person.write("ada.toml", ADA)
    runs = [person.compare() for person in people]
    assert [run.apply(comparison)[0].action for run, comparison in runs[:1]] == ["create"]
    second, comparison = runs[1]
    with pytest.raises(Refusal, match=r"agent 'ada' changed since plan .* was made: plan again"):
        second.apply(comparison)
    assert people[1].actions() == {"ada": "unchanged"}
    assert server.names() == ["ada"]


def test_an_update_of_the_metadata_leaves_an_agent_in_its_fleet(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    bob = folder.write("bob.toml", called("bob"))
    folder.apply()
    for agent in folder.server.agents.values():
        assert agent["metadata"] == {}
        agent["metadata"] = {"mine": 1}
    assert folder.actions() == {"ada": "unchanged", "bob": "unchanged"}
    bob.unlink()
    assert folder.actions(prune=True) == {"ada": "unchanged", "bob": "delete"}


def test_a_group_of_another_fleet_is_joined_with_adopt_alone(folder: Folder) -> None:
    folder.write("ada.toml", ADA + TEAM)
    folder.apply(fleet="theirs")
    (group,) = folder.server.groups.values()
    other = Folder(folder.path.parent / "others", folder.server)
    other.write("eve.toml", called("eve") + TEAM)
    (outcome,) = other.apply()
    assert "join it with --adopt" in outcome.problems[0]
    assert folder.server.names() == ["ada"], "what may be refused is asked before anything is made"
    other.apply(adopt=True)
    assert len(group["agent_ids"]) == 2


def test_a_group_that_the_server_refuses_leaves_the_agent_made_and_counted(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refusal(422, "no groups today")

    monkeypatch.setattr(folder.server, "_group", refuse)
    folder.write("ada.toml", ADA + TEAM)
    outcomes = {each.plan.kind: each for each in folder.outcomes()}
    assert (outcomes["agent"].action, outcomes["agent"].problems) == ("create", [])
    assert outcomes["group"].problems == ["no groups today"]
    assert folder.actions() == {"ada": "unchanged"}, "it is the fleet's"


def test_an_agent_may_be_made_again_and_again(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    for _ in range(25):
        assert folder.actions() == {"ada": "create"}
        folder.server.agents.clear()


def test_a_unit_that_is_refused_half_way_is_taken_back(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Refusal(422, "no schedules today")

    morning = '[[schedules]]\nname = "morning"\ncron = "0 9 * * *"\nmessage = "Hi"\n'
    folder.write("ada.toml", ADA)
    folder.apply()
    monkeypatch.setattr(folder.server, "_schedule", refuse)
    folder.write("ada.toml", ADA.replace("You are", "You were") + morning)
    folder.write("eve.toml", called("eve") + morning)
    assert folder.actions() == {"ada": "failed", "eve": "failed"}
    assert folder.server.names() == ["ada"]
    assert folder.server.agent("ada")["system"] == "You are Ada."


def test_yaml_overwrites_no_source_of_a_tool_and_reads_nothing_elsewhere(
    command: HeelerCommand, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("a secret")
    (tmp_path / "in" / "tools").mkdir(parents=True)
    (tmp_path / "in" / "tools" / "weather.py").write_text(WEATHER)
    reads = "\n".join(
        f"    {key}: {{from_file: {tmp_path / 'secret.txt'}}}" for key in ["system_prompt"]
    )
    (tmp_path / "in" / "fleet.yaml").write_text(
        f"agents:\n  - name: ada\n    tools: [weather]\n{reads}\n"
    )
    kept = tmp_path / "out" / "tools" / "weather.py"
    kept.parent.mkdir(parents=True)
    kept.write_text("mine")
    words = ["migrate", "yaml", str(tmp_path / "in"), "--to", str(tmp_path / "out")]
    ended = command.run(*words)
    assert f"{kept} is there already: --force overwrites it" in ended.out
    assert kept.read_text() == "mine"
    ended = command.run(*words, "--force")
    assert "leads out of the folder" in ended.out
    assert kept.read_text() == WEATHER
    assert "a secret" not in (tmp_path / "out" / "ada.toml").read_text()


def test_a_named_pipe_is_no_file(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    os.mkfifo(folder.path / "pipe.toml")
    assert folder.actions() == {"ada": "create"}
    with pytest.raises(CommandError, match="neither a file nor a folder"):
        fleet_of([folder.path / "pipe.toml"])
    os.mkfifo(folder.path / "prompt.md")
    folder.write(
        "ada.toml",
        ADA.replace("system_prompt =", "system_prompt_file =").replace("You are Ada.", "prompt.md"),
    )
    (outcome,) = folder.apply()
    assert "is no file" in outcome.problems[0]


SECRET = '[secrets]\nTOKEN = "${ADA_TOKEN}"\n'


def test_secrets_that_are_not_set_are_unchanged_or_unknown(folder: Folder) -> None:
    folder.environment = {"ADA_TOKEN": "s3cret"}
    folder.write("ada.toml", ADA + SECRET)
    folder.apply()
    fleet = fleet_of([folder.path])
    unset = Checks(environment=UnsetVariables({}))
    folder.files = read_agents(fleet, files_of(fleet), unset)
    _, comparison = folder.compare()
    (unit,) = comparison.plan.units
    assert (unit.action, [*unit.changes]) == ("unchanged", []) or unit.changes == []
    assert "unchanged or unknown" in unit.notes[0]
    folder.apply()
    assert folder.server.agent("ada")["secrets"] == [{"key": "TOKEN", "value": "s3cret"}]


def test_a_plan_without_a_new_secret_is_not_applied(folder: Folder) -> None:
    folder.write("ada.toml", ADA + SECRET)
    fleet = fleet_of([folder.path])
    unset = Checks(environment=UnsetVariables({}))
    folder.files = read_agents(fleet, files_of(fleet), unset)
    run, comparison = folder.compare()
    assert [*comparison.plan.units[0].unset] == ["TOKEN"]
    with pytest.raises(Refusal, match="TOKEN"):
        run.apply(comparison)
    assert folder.server.names() == []


def test_plans_speak_of_what_is_to_come_and_name_what_goes(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    bob = folder.write("bob.toml", called("bob"))
    folder.apply()
    bob_id = folder.server.agent("bob")["id"]
    bob.unlink()
    folder.write("ada.toml", ADA.replace("You are", "You were"))
    folder.write("eve.toml", called("eve"))
    run, comparison = folder.compare(prune=True)
    lines = [*plan_lines(comparison.plan)]
    assert "+ to create: eve  eve.toml" in lines
    assert any(line.startswith("~ to change: ada  ada.toml") for line in lines)
    assert f"- to delete: bob  bob.toml  ({bob_id})" in lines
    told = [outcome_line(outcome) for outcome in run.apply(comparison)]
    assert {"created eve (eve.toml)", "changed ada (ada.toml)", "deleted bob (bob.toml)"} <= {*told}


def test_an_undo_gives_back_what_an_apply_took(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    bob = folder.write("bob.toml", called("bob") + HUMAN.format("kept"))
    folder.apply()
    bob.unlink()
    folder.write("ada.toml", ADA.replace("You are", "You were") + HUMAN.format("Name: Ada"))
    folder.write("eve.toml", called("eve"))
    folder.apply(prune=True)
    assert folder.server.names() == ["ada", "eve"]
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    assert [each.problems for each in folder.undo(apply_id) if each.failed] == []
    assert folder.server.names() == ["ada", "bob"]
    assert folder.server.agent("ada")["system"] == "You are Ada."
    assert folder.server.block("ada", "human")["value"] == "unknown"
    assert folder.server.block("bob", "human")["value"] == "kept"
    (folder.path / "eve.toml").unlink()
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.write("bob.toml", called("bob") + HUMAN.format("kept"))
    assert folder.actions(prune=True) == {"ada": "unchanged", "bob": "unchanged"}
    with pytest.raises(Refusal, match="took another one back"):
        folder.undo(folder.fleets.queries.rows("fleet_applies")[-1]["id"])


def test_an_undo_keeps_what_was_changed_since(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    folder.write("ada.toml", ADA.replace("You are", "You were") + HUMAN.format("Name: Ada"))
    folder.apply()
    (agent,) = folder.server.agents.values()
    agent["system"] = "By hand"
    block = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block]["value"] = "Whiskers"
    outcomes = folder.undo(folder.fleets.queries.rows("fleet_applies")[-1]["id"])
    assert [*outcomes[0].plan.notes] == [
        "system is kept: it was changed since",
        "value is kept: it was changed since",
    ]
    assert folder.server.agent("ada")["system"] == "By hand"
    assert folder.server.block("ada", "human")["value"] == "Whiskers"


def last_apply(folder: Folder) -> str:
    """The id of what was applied last."""
    return str(folder.fleets.queries.rows("fleet_applies")[-1]["id"])


def test_an_undo_gives_back_a_deleted_agent_once(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    bob = folder.write("bob.toml", called("bob"))
    folder.apply()
    bob.unlink()
    folder.apply(prune=True)
    pruned = last_apply(folder)
    plans = folder.run().server
    early = plans.plan({"undo": pruned})
    assert [each.action for each in folder.undo(pruned)] == ["create"]
    with pytest.raises(Refusal, match="changed since plan"):
        plans.apply_all(early)
    again = plans.plan({"undo": pruned})
    assert [*again.units[0].notes] == ["the fleet has an agent of that file again, which stays"]
    plans.apply_all(again)
    assert folder.server.names() == ["ada", "bob"]


def test_an_undo_gives_back_an_agent_whose_process_died_as_it_deleted_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LOOK_SECONDS", 0.0)
    folder.write("ada.toml", ADA)
    bob = folder.write("bob.toml", called("bob"))
    folder.apply()
    bob.unlink()
    server = folder.server
    server.lost_from, server.answer_lost = len(server.sent) + 1, True
    folder.apply(prune=True)
    assert folder.fleets.deaths == 1
    assert not [each for each in folder.undo(last_apply(folder)) if each.failed]
    assert server.names() == ["ada", "bob"]


def test_an_undo_takes_back_the_tools_of_a_new_mcp_server(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    folder.write("ada.toml", ADA + MCP)
    folder.apply()
    assert {"search", "fetch"} <= {tool["name"] for tool in folder.server.agent("ada")["tools"]}
    assert [each.problems for each in folder.undo(last_apply(folder)) if each.failed] == []
    names = {tool["name"] for tool in folder.server.agent("ada")["tools"]}
    assert names.isdisjoint({"search", "fetch"})


def test_files_that_are_at_odds_are_told_in_few_words() -> None:
    agents = [
        DesiredAgent(
            name=f"a{number}",
            key="same",
            file=f"a{number}.toml",
            blocks=[Block(label="notes", value=str(number), shared=True)],
        )
        for number in range(500)
    ]
    plan = plan_fleet(Wanted(agents=agents), FleetState("fleet-1"))
    problems = [problem for unit in plan.units for problem in unit.problems]
    assert any("a9.toml and 490 more have the same key 'same'" in each for each in problems)
    assert any("a9.toml and 490 more describe it differently" in each for each in problems)
    assert max(map(len, problems)) < 500


def test_what_changes_while_a_plan_is_applied_is_not_overwritten(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ada", "bob"):
        folder.write(f"{name}.toml", called(name) + HUMAN.format("unknown"))
    folder.apply()
    block = folder.server.block("bob", "human")["id"]
    for name in ("ada", "bob"):
        folder.write(f"{name}.toml", called(name) + HUMAN.format("Name: unknown"))
    send = folder.server.send

    def learn_after_the_first(*given: Any) -> Any:
        folder.server.blocks[block]["value"] = "Whiskers"
        return send(*given)

    monkeypatch.setattr(folder.server, "send", learn_after_the_first)
    outcomes = {outcome.plan.name: outcome for outcome in folder.apply()}
    assert outcomes["ada"].problems == []
    assert "value changed since this was planned" in outcomes["bob"].problems[0]
    assert folder.server.block("bob", "human")["value"] == "Whiskers"


def test_an_apply_says_why_nothing_is_pruned(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write("ada.toml", ADA)
    bob = folder.write("bob.toml", called("bob"))
    folder.apply()
    bob.unlink()
    folder.write("other/eve.toml", "not TOML")
    run, comparison = folder.compare(prune=True, paths=[folder.path / "ada.toml"])
    outcomes = run.apply(comparison)
    assert folder.server.names() == ["ada", "bob"]
    show_outcomes("ours", comparison.plan, outcomes, comparison)
    assert "nothing is pruned" in capsys.readouterr().err
    assert comparison.is_wrong
    with pytest.raises(typer.Exit) as ended:
        end(comparison.plan, outcomes)
    assert ended.value.exit_code == ExitCode.REFUSED


def test_an_apply_says_which_memory_is_kept(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    folder.server.blocks[folder.server.block("ada", "human")["id"]]["value"] = "Whiskers"
    folder.write("ada.toml", ADA + HUMAN.format("Name: Ada"))
    (outcome,) = folder.apply()
    assert "memory.human.value is kept" in outcome_line(outcome)


def test_a_plan_that_cannot_be_applied_asks_nothing(folder: Folder) -> None:
    ada = folder.write("ada.toml", ADA)
    folder.apply()
    ada.unlink()
    run, comparison = folder.compare(prune=True)
    with pytest.raises(CommandError, match="whole fleet"):
        confirm_deletions(run.server, "ours", comparison.plan, yes=False)


def test_agents_that_are_gone_already_do_not_count_as_deleted(folder: Folder) -> None:
    names = [f"bot{number}" for number in range(9)]
    files = [folder.write(f"{name}.toml", called(name)) for name in names]
    folder.apply()
    for file in files[1:]:
        file.unlink()
    folder.server.agents = {
        agent_id: agent
        for agent_id, agent in folder.server.agents.items()
        if agent["name"] == "bot0"
    }
    folder.apply(prune=True)
    _, comparison = folder.compare(prune=True)
    assert not comparison.differs


def test_a_variable_of_an_environment_that_is_not_set_is_not_set_for_files(
    folder: Folder,
) -> None:
    known = FleetEnvironment(variables={"TOKEN": "${PROD_TOKEN}", "PLACE": "${TOWN}"})
    here = {"TOKEN": "of dev", "TOWN": "Bonn"}
    assert values_of(known, here) == {"TOWN": "Bonn", "PLACE": "Bonn"}


def test_an_environment_that_a_fleet_does_not_name_is_refused(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.write(
        "heeler-fleet.toml", 'id = "fleet-1"\nname = "ours"\n[environments.prod]\nserver = "prod"\n'
    )
    fleet = fleet_of([folder.path])
    assert fleet.environment("prod").server == "prod"
    with pytest.raises(CommandError, match="'production': use prod"):
        fleet.environment("production")


def test_a_group_and_a_tool_that_are_adopted_are_said_to_be(folder: Folder) -> None:
    folder.write("ada.toml", ADA + TEAM)
    folder.apply(fleet="theirs")
    _, comparison = folder.compare(adopt=True)
    assert {unit.kind: [*unit.words] for unit in comparison.plan.units} == {
        "agent": ["adopt"],
        "group": ["adopt"],
    }
    folder.apply(adopt=True)
    run = folder.run()
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    undo = run.server.plan({"undo": apply_id})
    assert {unit.kind: [*unit.words] for unit in undo.units} == {
        "agent": ["give up"],
        "group": ["give up"],
    }


def test_a_second_undo_of_an_apply_has_nothing_to_do(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    folder.path.joinpath("ada.toml").rename(folder.path / "eve.toml")
    folder.write("eve.toml", called("eve"))
    folder.write("eve.toml", 'was = "ada"\n' + called("eve"))
    folder.apply()
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    folder.undo(apply_id)
    assert folder.server.names() == ["ada"]
    assert not folder.run().server.plan({"undo": apply_id}).differs


def test_an_undo_leaves_a_file_to_the_agent_that_it_is_about_now(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    folder.path.joinpath("ada.toml").rename(folder.path / "old.toml")
    folder.apply()
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    folder.write("ada.toml", called("eve"))
    folder.apply()
    (outcome,) = folder.undo(apply_id)
    assert "about another agent now" in outcome.plan.notes[0]
    assert folder.actions(prune=True) == {"ada": "unchanged", "eve": "unchanged"}


def test_an_undo_leaves_an_agent_that_another_fleet_has_taken(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    folder.write("ada.toml", ADA.replace("You are", "You were"))
    folder.apply()
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    folder.apply(fleet="theirs", adopt=True)
    (outcome,) = folder.undo(apply_id)
    assert (outcome.action, folder.server.agent("ada")["system"]) == ("unchanged", "You were Ada.")
    assert folder.actions(fleet="theirs") == {"ada": "unchanged"}


def test_an_undo_deletes_no_agent_that_another_fleet_has_taken(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    folder.apply(fleet="theirs", adopt=True)
    (outcome,) = folder.undo(apply_id)
    assert "not this fleet's any more" in outcome.plan.notes[0]
    assert folder.server.names() == ["ada"]


@pytest.mark.parametrize("paths", [["."], ["one", "two"], ["one", "two/bob.toml"]])
def test_two_fleets_are_not_applied_as_one(tmp_path: Path, paths: list[str]) -> None:
    for name in ("one", "two"):
        folder = Folder(tmp_path / name)
        folder.write("bob.toml", called(f"{name} bob"))
        folder.write("heeler-fleet.toml", f'id = "fleet-{name}"\nname = "{name}"\n')
    fleet = fleet_of([tmp_path / path for path in paths])
    with pytest.raises(CommandError, match=r"one/heeler-fleet\.toml says"):
        fleet.refuse_others(files_of(fleet))
    alone = fleet_of([tmp_path / "one"])
    alone.refuse_others(files_of(alone))


def test_an_apply_that_is_left_alone_says_that_it_goes_on(
    folder: Folder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("ada.toml", ADA)
    run, comparison = folder.compare()

    def press_ctrl_c(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.server.transport, "get", press_ctrl_c)
    with pytest.raises(KeyboardInterrupt):
        apply_with_progress(run, comparison)
    assert "0 of 1 were done, and the server goes on" in capsys.readouterr().err


def test_a_folder_that_cannot_be_read_keeps_its_agents_from_being_pruned(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("ada.toml", ADA)
    folder.write("secret/bob.toml", called("bob"))
    folder.apply()
    scandir = os.scandir

    def refuse(path: Any = ".") -> Any:
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(CommandError, match="secret cannot be read: Permission denied"):
        folder.apply(prune=True, paths=[folder.path / "ada.toml"])
    assert folder.server.names() == ["ada", "bob"]


def test_packages_of_other_programs_are_not_looked_at(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.write("node_modules/tool/settings.toml", "a = 1")
    assert folder.actions(prune=True) == {"ada": "create"}


def test_an_undo_keeps_the_source_of_a_tool_that_was_changed_since(folder: Folder) -> None:
    roll = 'def roll(sides: int) -> str:\n    """Roll."""\n    return "{}"\n'
    folder.write("ada.toml", ADA + '[[tool]]\nfile = "roll.py"\n')
    folder.write("roll.py", roll.format("one"))
    folder.apply()
    folder.write("roll.py", roll.format("two"))
    folder.apply()
    apply_id = folder.fleets.queries.rows("fleet_applies")[-1]["id"]
    (tool,) = (tool for tool in folder.server.tools.values() if tool["name"] == "roll")
    left, tool["source_code"] = tool["source_code"], roll.format("by hand")
    outcomes = folder.undo(apply_id)
    assert "it is kept: it was changed since" in [n for each in outcomes for n in each.plan.notes]
    assert tool["source_code"] == roll.format("by hand")
    tool["source_code"] = left
    folder.undo(apply_id)
    (tool,) = (tool for tool in folder.server.tools.values() if tool["name"] == "roll")
    assert tool["source_code"] == roll.format("one")


def test_a_folder_without_files_is_said(folder: Folder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.path.mkdir()
    compare_files(folder.run(), fleet_of([folder.path], "ours"))
    assert "There is no TOML file of an agent in" in capsys.readouterr().err


def test_what_another_fleet_takes_over_during_an_apply_has_one_owner(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    folder.write("ada.toml", ADA.replace("You are", "You were"))
    other = Folder(folder.path.parent / "others", folder.server, fleet="theirs")
    other.write("ada.toml", ADA)
    theirs = other.run().server.fleet_id
    send, taken = folder.server.send, []

    def take_over_first(*given: Any) -> Any:
        if not taken:
            taken.append(True)
            rows = folder.fleets.database.schema("api").tables["fleet_members"]
            (row,) = rows.values()
            rows.clear()
            rows["theirs",] = {**row, "id": "theirs", "fleet_id": theirs}
        return send(*given)

    monkeypatch.setattr(folder.server, "send", take_over_first)
    folder.apply()
    owners = [row["fleet_id"] for row in folder.fleets.queries.rows("fleet_members")]
    assert owners == [theirs]


def test_a_plan_is_not_applied_over_an_apply_that_began_and_ended_after_its_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer()
    first, second = (Folder(tmp_path / name / "agents", server, fleet=None) for name in ("a", "b"))
    for person in (first, second):
        person.write("heeler-fleet.toml", 'id = "fleet-1"\nname = "ours"\n')
        person.write("ada.toml", ADA)
    run, comparison = first.compare()
    rival = second.compare()[1].plan
    fleets = first.fleets

    async def apply_the_other_plan() -> None:
        monkeypatch.undo()
        began = await fleets.start(rival.fleet_id, {"plan_id": rival.id, "by": "bob"})
        await fleets.attempt(rival.fleet_id)
        assert fleets.queries.rows("fleet_applies", id=began["id"])[0]["status"] == "completed"

    monkeypatch.setattr(fleets, "before_start", apply_the_other_plan)
    with pytest.raises(Refusal, match="was applied meanwhile: plan again"):
        run.apply(comparison)
    assert server.names() == ["ada"]
