"""Templates of the command: folders that are found, checked and copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exit_codes import ExitCode
from deploy.embedded.settings import CHECKOUT
from tests.heeler_command import HeelerCommand

EXAMPLES = CHECKOUT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/template.toml"))
ABOUT = 'version = "1.0.0"\ndescription = "Greets."\nauthor = "Ada"\nusage = "Say hello."\n'
AGENT = '# Mine.\nname = "greeter"\nsystem_prompt = "Greet."\n'
SCENARIO = '[scenario]\nname = "greets"\nagent = "../agent.toml"\n[[turns]]\nmessage = "Hi"\n'


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of one's own with one template."""
    folder = tmp_path / "own" / "greeter"
    (folder / "tests").mkdir(parents=True)
    (folder / "template.toml").write_text(ABOUT)
    (folder / "agent.toml").write_text(AGENT)
    (folder / "tests" / "greets.toml").write_text(SCENARIO)
    return folder


def test_the_usual_templates_are_there_and_say_what_they_are(command: HeelerCommand) -> None:
    assert {"chatbot", "data-analyst", "researcher", "scheduler"} <= {*NAMES}
    listed = command("templates", "starters", "--json").json
    assert [entry["name"] for entry in listed] == NAMES
    assert all(entry["usage"] and entry["version"] and entry["agents"] for entry in listed)


@pytest.mark.parametrize("name", NAMES)
def test_each_passes_the_check_for_templates(command: HeelerCommand, name: str) -> None:
    assert command("templates", "check", str(EXAMPLES / name), "--json").json == []


def test_a_folder_of_ones_own_comes_first(command: HeelerCommand, own: Path) -> None:
    listed = command("templates", "starters", "--templates", str(own.parent), "--json").json
    assert [entry["name"] for entry in listed] == ["greeter", *NAMES]
    command.monkeypatch.setenv("HEELER_TEMPLATES", str(own.parent))
    shown = command("templates", "starters", "greeter", "--json").json
    assert (shown["author"], shown["agents"]) == ("Ada", ["agent.toml"])


def test_a_copy_keeps_all_but_the_name_and_the_model(
    command: HeelerCommand, own: Path, tmp_path: Path
) -> None:
    target = tmp_path / "new" / "bob"
    made = command(
        *("create", "--template", "greeter", "--templates", str(own.parent), "--files-only"),
        *("--to", str(target), "--name", "bob", "--model", "openai/gpt-4.1"),
    )
    assert "bob/agent.toml" in made.err
    assert (target / "agent.toml").read_text() == (
        'model = "openai/gpt-4.1"\n# Mine.\nname = "bob"\nsystem_prompt = "Greet."\n'
    )
    assert (target / "tests" / "greets.toml").read_text() == SCENARIO
    assert not (target / "template.toml").exists()


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--template", "chatbt"], ExitCode.NOT_FOUND, "did you mean 'chatbot'?"),
        (["--template", "../chatbot"], ExitCode.NOT_FOUND, "There is no template '../chatbot'"),
        (["--template", "support-team", "--name", "x"], ExitCode.USAGE, "has 2 agents"),
        (["--template", "chatbot", "--to", "."], ExitCode.FAILED, "is there already"),
        (["--template", "chatbot", "--config", "a.toml"], ExitCode.USAGE, "Say either"),
        ([], ExitCode.USAGE, "Say either --config FILE or --template NAME"),
        (["--config", "a.toml", "--name", "x"], ExitCode.USAGE, "belong to --template"),
        (["--template", "x", "--templates", "nowhere"], ExitCode.NOT_FOUND, "no folder nowhere"),
    ],
)
def test_what_cannot_be_copied_is_refused_and_nothing_is_written(
    command: HeelerCommand, tmp_path: Path, words: list[str], code: ExitCode, said: str
) -> None:
    command.monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    ended = command.run("create", *words)
    assert (ended.code, said in ended.err) == (code, True), ended
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("template.toml", ABOUT.replace("1.0.0", "one"), "write it as 1.0.0"),
        ("template.toml", ABOUT.replace("author", "autor"), "did you mean `author`?"),
        ("template.toml", 'version = "1.0.0"', "`usage` is missing"),
        ("agent.toml", AGENT.replace("system_prompt", "sytem_prompt"), "system_prompt"),
        ("tests/greets.toml", SCENARIO.replace("turns", "trns"), "turns"),
        ("tests/greets.toml", "", "there are no scenarios"),
    ],
)
def test_the_check_says_what_is_wrong(
    command: HeelerCommand, own: Path, file: str, text: str, said: str
) -> None:
    (own / file).write_text(text)
    ended = command.run("templates", "check", str(own))
    assert (ended.code, said in ended.out) == (ExitCode.REFUSED, True), ended
