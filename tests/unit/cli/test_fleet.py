"""Agents in files against a server: what is created, changed, kept and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exit_codes import CommandError
from tests.unit.cli.fleets import ADA, Folder

HUMAN = '\n[[memory]]\nlabel = "human"\nvalue = "{}"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "agents")


def test_a_file_makes_an_agent_and_a_second_time_changes_nothing(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    assert folder.actions() == {"ada": "create"}
    assert folder.server.agent("ada")["system"] == "You are Ada."
    assert folder.server.block("ada", "human")["value"] == "unknown"
    sent = len(folder.server.sent)
    assert folder.actions() == {"ada": "unchanged"}
    assert len(folder.server.sent) == sent


def test_only_fields_that_differ_are_sent(folder: Folder) -> None:
    folder.write("ada.toml", ADA + 'description = "A clerk"\n')
    folder.apply()
    folder.write("ada.toml", ADA + 'description = "A poet"\n')
    folder.server.sent.clear()
    assert folder.actions() == {"ada": "change"}
    method, _, body = folder.server.sent[0]
    assert (method, set(body)) == ("PATCH", {"description"})
    assert folder.server.agent("ada")["description"] == "A poet"


def test_what_is_taken_out_of_a_file_is_taken_back(folder: Folder) -> None:
    folder.write(
        "ada.toml", ADA + 'description = "A clerk"\ntools = ["web_search"]\ntags = ["x"]\n'
    )
    folder.apply()
    folder.write("ada.toml", ADA)
    folder.apply()
    agent = folder.server.agent("ada")
    assert (agent["description"], agent["tags"]) == (None, [])
    assert {tool["name"] for tool in agent["tools"]} == {"memory_insert", "memory_replace"}


def test_what_others_gave_an_agent_stays(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    (agent,) = folder.server.agents.values()
    agent["tool_ids"].append(folder.server._tool_named("web_search"))
    agent["tags"] = ["by hand"]
    agent["metadata"]["other"] = 1
    folder.write("ada.toml", ADA.replace("You are Ada", "You are Ada Lovelace"))
    folder.apply()
    shown = folder.server.agent("ada")
    assert "web_search" in {tool["name"] for tool in shown["tools"]}
    assert (shown["tags"], shown["metadata"]["other"]) == (["by hand"], 1)


def test_memory_that_an_agent_wrote_is_kept(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    block_id = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block_id]["value"] = "Her cat is called Whiskers"
    folder.write("ada.toml", ADA + 'description = "A clerk"\n' + HUMAN.format("unknown"))
    assert folder.actions() == {"ada": "change"}
    assert folder.server.block("ada", "human")["value"] == "Her cat is called Whiskers"


def test_a_value_that_changed_in_the_file_is_written_over_the_one_before(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    folder.write("ada.toml", ADA + HUMAN.format("Name: Ada"))
    assert folder.actions() == {"ada": "change"}
    assert folder.server.block("ada", "human")["value"] == "Name: Ada"
    assert folder.actions() == {"ada": "unchanged"}


def test_a_value_that_changed_in_the_file_is_not_written_over_what_the_agent_wrote(
    folder: Folder,
) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    block_id = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block_id]["value"] = "Her cat is called Whiskers"
    folder.write("ada.toml", ADA + HUMAN.format("Name: Ada"))
    _, comparison = folder.compare()
    (unit,) = comparison.plan.units
    assert "memory.human.value is kept" in unit.notes[0]
    folder.apply()
    assert folder.server.block("ada", "human")["value"] == "Her cat is called Whiskers"
    assert folder.actions() == {"ada": "unchanged"}


def test_reset_memory_writes_the_values_of_the_files(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    block_id = folder.server.block("ada", "human")["id"]
    folder.server.blocks[block_id]["value"] = "Her cat is called Whiskers"
    assert folder.actions() == {"ada": "unchanged"}
    with pytest.raises(CommandError, match="reset-memory bob"):
        folder.actions(reset_memory=("bob",))
    _, comparison = folder.compare(reset_memory=("ada",))
    (unit,) = comparison.plan.units
    assert [*unit.words] == ["change", "overwrite memory"]
    assert folder.actions(reset_memory=("ada",)) == {"ada": "change"}
    assert folder.server.block("ada", "human")["value"] == "unknown"


def test_a_block_that_leaves_the_file_is_detached_and_kept(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    block = folder.server.block("ada", "human")
    folder.server.blocks[block["id"]]["value"] = "Whiskers"
    folder.write("ada.toml", ADA)
    folder.apply()
    assert folder.server.agent("ada")["blocks"] == []
    assert folder.server.blocks[block["id"]]["value"] == "Whiskers"


def test_a_block_of_somebody_else_stays_attached(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    (agent,) = folder.server.agents.values()
    agent["block_ids"].append(folder.server._new_block({"label": "notes", "value": "x"})["id"])
    folder.write("ada.toml", ADA + 'description = "A clerk"\n')
    folder.apply()
    assert folder.server.block("ada", "notes")["value"] == "x"


def test_files_share_a_block(folder: Folder) -> None:
    shared = '\n[[memory]]\nlabel = "house"\nvalue = "Rules"\nshared = true\n'
    folder.write("ada.toml", ADA + shared)
    folder.write("bob.toml", ADA.replace("ada", "bob") + shared)
    folder.apply()
    assert folder.server.block("ada", "house") == folder.server.block("bob", "house")
    assert len(folder.server.blocks) == 1
    assert set(folder.actions().values()) == {"unchanged"}


def test_files_that_describe_a_shared_block_differently_are_refused(folder: Folder) -> None:
    shared = '\n[[memory]]\nlabel = "house"\nvalue = "{}"\nshared = true\n'
    folder.write("ada.toml", ADA + shared.format("Rules"))
    folder.write("bob.toml", ADA.replace("ada", "bob") + shared.format("No rules"))
    folder.write("eve.toml", ADA.replace("ada", "eve"))
    outcomes = {outcome.plan.name: outcome for outcome in folder.apply()}
    assert "ada.toml, bob.toml describe it differently" in outcomes["ada"].problems[0]
    assert folder.server.names() == ["eve"]


def test_a_renamed_file_is_the_same_agent(folder: Folder) -> None:
    file = folder.write("ada.toml", ADA)
    folder.apply()
    before = folder.server.agent("ada")["id"]
    file.rename(file.with_name("lovelace.toml"))
    assert folder.actions(prune=True) == {"ada": "change"}
    assert folder.server.agent("ada")["id"] == before
    assert folder.actions(prune=True) == {"ada": "unchanged"}


def test_another_name_in_a_file_renames_the_agent(folder: Folder) -> None:
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply()
    before = folder.server.agent("ada")["id"]
    folder.write("ada.toml", ADA.replace('"ada"', '"lovelace"') + HUMAN.format("unknown"))
    assert folder.actions(prune=True) == {"lovelace": "change"}
    assert folder.server.agent("lovelace")["id"] == before


def test_an_agent_that_was_renamed_by_hand_stays_the_fleets(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    (agent,) = folder.server.agents.values()
    agent["name"], agent["metadata"] = "kept", {}
    _, comparison = folder.compare()
    assert [*comparison.plan.units[0].words] == ["rename"]
    folder.apply()
    assert [each["id"] for each in folder.server.agents.values()] == [agent["id"]]
    assert folder.server.names() == ["ada"]


def test_an_agent_that_was_deleted_is_made_again(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply()
    folder.server.agents.clear()
    assert folder.actions() == {"ada": "create"}
    assert folder.server.names() == ["ada"]


def test_two_files_of_one_name_are_refused_before_anything_is_sent(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.write("team/ada.toml", ADA)
    folder.write("bob.toml", ADA.replace("ada", "bob"))
    with pytest.raises(CommandError, match=r"ada\.toml and team/ada\.toml both describe"):
        folder.apply()
    assert folder.server.sent == []


def test_prune_deletes_agents_of_this_fleet_alone(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    bob = folder.write("bob.toml", ADA.replace("ada", "bob"))
    folder.apply()
    folder.server._act("POST", ["agents"], {"name": "foreign"}, None)
    other = Folder(folder.path.parent / "others", folder.server, fleet="others")
    other.write("eve.toml", ADA.replace("ada", "eve"))
    other.apply()
    bob.unlink()
    assert folder.actions() == {"ada": "unchanged"}, "without --prune nothing is deleted"
    assert folder.actions(prune=True) == {"ada": "unchanged", "bob": "delete"}
    assert folder.server.names() == ["ada", "eve", "foreign"]


def test_prune_spares_a_fork_of_a_deleted_agent(folder: Folder) -> None:
    file = folder.write("ada.toml", ADA)
    folder.write("bob.toml", ADA.replace("ada", "bob"))
    folder.apply()
    folder.server._keep(
        folder.server.agents,
        "agent",
        {k: v for k, v in folder.server.agent("ada").items() if k not in ("id", "created_at")},
    )
    file.unlink()
    assert folder.actions(prune=True) == {"bob": "unchanged", "ada": "delete"}
    assert folder.server.names() == ["ada", "bob"]


def test_prune_looks_at_the_whole_fleet(folder: Folder) -> None:
    (folder.path / ".git").mkdir(parents=True)
    folder.write("a/ada.toml", ADA)
    bob = folder.write("b/bob.toml", ADA.replace("ada", "bob"))
    folder.apply()
    bob.unlink()
    only = [folder.path / "a"]
    assert folder.actions(prune=True, paths=only) == {"ada": "unchanged", "bob": "delete"}


def test_a_file_that_is_wrong_is_not_pruned(folder: Folder) -> None:
    file = folder.write("ada.toml", ADA)
    folder.apply()
    file.write_text("name = ")
    folder.apply(prune=True)
    assert folder.server.names() == ["ada"]
    (configuration,) = folder.server.configurations.values()
    assert (configuration["status"], configuration["problems"][0]["line"]) == ("rejected", 1)


def test_a_moved_file_that_is_wrong_keeps_its_agent_from_being_pruned(folder: Folder) -> None:
    file = folder.write("ada.toml", ADA)
    folder.apply()
    file.unlink()
    folder.write("team/ada.toml", "name = ")
    folder.apply(prune=True)
    assert folder.server.names() == ["ada"]


def test_an_agent_of_somebody_else_is_changed_with_adopt_alone(folder: Folder) -> None:
    folder.server._act("POST", ["agents"], {"name": "ada", "system": "Mine"}, None)
    folder.write("ada.toml", ADA)
    (outcome,) = folder.apply()
    assert "take it over with --adopt" in outcome.problems[0]
    assert folder.server.agent("ada")["system"] == "Mine"
    assert folder.actions(adopt=True) == {"ada": "change"}
    assert folder.actions() == {"ada": "unchanged"}


def test_an_adopted_agent_keeps_its_memory(folder: Folder) -> None:
    blocks = [{"label": "human", "value": "Whiskers"}]
    folder.server._act("POST", ["agents"], {"name": "ada", "memory_blocks": blocks}, None)
    folder.write("ada.toml", ADA + HUMAN.format("unknown"))
    folder.apply(adopt=True)
    assert folder.server.block("ada", "human")["value"] == "Whiskers"
    folder.write("ada.toml", ADA + HUMAN.format("Name: Ada"))
    folder.apply()
    assert folder.server.block("ada", "human")["value"] == "Whiskers"


def test_an_agent_of_another_fleet_is_refused(folder: Folder) -> None:
    folder.write("ada.toml", ADA)
    folder.apply(fleet="theirs")
    folder.write("ada.toml", ADA + 'description = "mine"\n')
    (outcome,) = folder.apply(fleet="ours")
    assert "belongs to the fleet 'theirs'" in outcome.problems[0]


def test_a_refusal_of_the_server_keeps_the_other_agents(folder: Folder) -> None:
    folder.write("ada.toml", ADA.replace("gpt-4.1", "refused"))
    folder.write("bob.toml", ADA.replace("ada", "bob"))
    assert folder.actions() == {"ada": "failed", "bob": "create"}
    assert folder.server.names() == ["bob"]


@pytest.mark.parametrize("wrong", ['key = ""', f'key = "{"k" * 2_000}"', f'name = "{"n" * 2_000}"'])
def test_a_file_whose_key_or_name_is_none_keeps_no_other_file_from_being_applied(
    folder: Folder, wrong: str
) -> None:
    folder.write("ada.toml", ADA)
    folder.write("eve.toml", f"{wrong}\nmodle = 1\n")
    folder.outcomes()
    assert folder.server.names() == ["ada"]
