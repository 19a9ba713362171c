"""`heeler migrate yaml`: what other tools keep as YAML becomes files that can be applied."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.exit_codes import ExitCode
from libs.agent_toml import AgentDefinition, read_file
from tests.heeler_command import HeelerCommand

FLEET = """
shared_blocks:
  - {name: guidelines, description: Voice, limit: 5000, value: "Be kind.\\nBe short.\\n"}
mcp_servers:
  - {name: crawler, type: sse, server_url: "https://crawl.example/sse", auth_token: sk-123}
agents:
  - name: support
    description: Answers customers
    llm_config: {model: google_ai/gemini-2.5-pro, context_window: 32000, max_tokens: 4000}
    system_prompt: {from_file: prompts/support.md}
    shared_blocks: [guidelines]
    memory_blocks:
      - {name: notes, description: What I learnt, limit: 2000, agent_owned: false, value: None}
    tools: [archival_memory_insert, weather]
    mcp_tools: [{server: crawler, tools: [scrape]}]
    folders: [{name: docs, files: ["*.txt"]}]
    first_message: hi
"""
PROMPT = 'You help.\n\n\tAlways "politely".\n'
WEATHER = '''def weather(city: str) -> str:
    """Say what the weather is.

    Args:
        city: where
    """
    return "sunny"
'''
CREW = """
researcher:
  role: Senior Researcher
  goal: Find facts
  backstory: You have a nose for facts.
  llm: gpt-4o
  verbose: true
"""
OTHERS = """
kind: Agent
metadata: {name: helper, labels: {team: platform}}
spec:
  model: openai:gpt-4o
  model_config: {temperature: 1, max_tokens: 100}
  instructions: Help.
  tools: [web_search]
---
name: single
system: You are single.
persona: I am calm.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files in all of the forms."""
    (tmp_path / "old" / "prompts").mkdir(parents=True)
    (tmp_path / "old" / "tools").mkdir()
    (tmp_path / "old" / "prompts" / "support.md").write_text(PROMPT)
    (tmp_path / "old" / "tools" / "weather.py").write_text(WEATHER)
    for name, text in {"fleet": FLEET, "crew": CREW, "others": OTHERS}.items():
        (tmp_path / "old" / f"{name}.yaml").write_text(text)
    return tmp_path


def definition(path: Path) -> AgentDefinition:
    """What the file at a path says, which has to be right."""
    checked = read_file(
        path.read_bytes, file=str(path), read_sibling=lambda name: (path.parent / name).read_text()
    )
    assert checked.definition is not None, checked.problems
    return checked.definition


def test_every_common_form_becomes_a_file_that_can_be_applied(
    command: HeelerCommand, folder: Path
) -> None:
    done = command.run(
        "migrate", "yaml", str(folder / "old"), "--to", str(folder / "new"), "--json"
    )
    assert done.code == ExitCode.OK
    support = definition(folder / "new" / "support.toml")
    assert support.system_prompt == PROMPT
    assert (support.model, support.context_window) == ("google_ai/gemini-2.5-pro", 32000)
    assert support.model_settings is not None
    assert support.model_settings.max_output_tokens == 4000
    assert support.tools == ["archival_memory_insert"]
    assert support.tool[0].source == WEATHER
    assert support.folders == ["docs"]
    assert [(block.label, block.value, block.limit, block.shared) for block in support.memory] == [
        ("notes", "None", 2000, False),
        ("guidelines", "Be kind.\nBe short.\n", 5000, True),
    ]
    (server,) = support.mcp_servers
    assert (server.url, server.transport, server.tools) == (
        *("https://crawl.example/sse", "sse", ["scrape"]),
    )
    researcher = definition(folder / "new" / "researcher.toml")
    assert researcher.model == "openai/gpt-4o"
    assert researcher.system_prompt == (
        "You are Senior Researcher.\n\nYour goal: Find facts\n\nYou have a nose for facts."
    )
    helper = definition(folder / "new" / "helper.toml")
    assert (helper.system_prompt, helper.model) == ("Help.", "openai/gpt-4o")
    assert helper.metadata == {"team": "platform"}
    single = definition(folder / "new" / "single.toml")
    assert (single.memory[0].label, single.memory[0].value) == ("persona", "I am calm.")


def test_what_is_left_out_or_changed_is_said(command: HeelerCommand, folder: Path) -> None:
    done = command.run(
        "migrate", "yaml", str(folder / "old"), "--to", str(folder / "new"), "--json"
    )
    said = {Path(each["source"]).name: each["remarks"] for each in done.json}
    fleet = "\n".join(said["fleet.yaml: agents[0]"])
    assert "first_message: left out" in fleet
    assert "set the environment variable CRAWLER_AUTH_TOKEN" in fleet
    assert "memory_blocks.notes: an agent keeps what it writes into it" in fleet
    assert "verbose: left out" in "\n".join(said["crew.yaml: researcher"])
    assert "sk-123" not in "".join(path.read_text() for path in (folder / "new").glob("*.toml"))


def test_placeholders_of_a_crew_are_named(command: HeelerCommand, tmp_path: Path) -> None:
    crew = CREW.replace("Senior Researcher", "'{topic} Researcher'").replace(
        "Find facts", "'Find facts on {topic} since {year} as {\"a\": 1}'"
    )
    (tmp_path / "crew.yaml").write_text(crew)
    words = ("migrate", "yaml", str(tmp_path / "crew.yaml"), "--to", str(tmp_path / "new"))
    (done,) = command.json(*words)
    assert [remark for remark in done["remarks"] if "CrewAI" in remark] == [
        "goal: CrewAI fills in {topic}, {year} when a crew starts; here it stays as it is: write"
        " what it stands for",
        "role: CrewAI fills in {topic} when a crew starts; here it stays as it is: write what it"
        " stands for",
    ]


def test_a_placeholder_without_quotes_is_one(command: HeelerCommand, tmp_path: Path) -> None:
    crew = CREW.replace("Senior Researcher", "{field}").replace("Find facts", "{topic}")
    (tmp_path / "crew.yaml").write_text(crew)
    words = ("migrate", "yaml", str(tmp_path / "crew.yaml"), "--to", str(tmp_path / "new"))
    (done,) = command.json(*words)
    said = [remark.partition(" when")[0] for remark in done["remarks"] if "CrewAI" in remark]
    assert said == ["goal: CrewAI fills in {topic}", "role: CrewAI fills in {field}"]
    (file,) = (tmp_path / "new").glob("*.toml")
    prompt = definition(file).system_prompt
    assert prompt is not None
    assert prompt.startswith("You are {field}.\n\nYour goal: {topic}\n")


def test_nothing_is_overwritten_unless_one_says_so(command: HeelerCommand, folder: Path) -> None:
    words = ("migrate", "yaml", str(folder / "old" / "crew.yaml"), "--to", str(folder / "new"))
    assert command.run(*words).code == ExitCode.OK
    (folder / "new" / "researcher.toml").write_text("mine")
    refused = command.run(*words)
    assert refused.code == ExitCode.REFUSED
    assert "researcher.toml is there already: --force overwrites it" in refused.out
    assert (folder / "new" / "researcher.toml").read_text() == "mine"
    assert command.run(*words, "--force").code == ExitCode.OK
    assert definition(folder / "new" / "researcher.toml").name == "researcher"


BOMB = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: [", "is no YAML"),
        ("name: &a {system: *a}", "levels"),
        (BOMB, "more than 100000 values"),
        ("agents:\n  - {name: ada, system: Hi, model: x/y, timezone: 7, tags: [[]]}", "ada.toml"),
        ("just words", "no agent was found in it"),
    ],
    ids=["syntax", "circle", "bomb", "odd", "words"],
)
def test_a_file_that_is_odd_costs_no_other_its_place(
    command: HeelerCommand, folder: Path, text: str, words: str
) -> None:
    (folder / "old" / "a.yaml").write_text(text)
    done = command.run("migrate", "yaml", str(folder / "old"), "--to", str(folder / "new"))
    assert words in done.out + done.err
    assert definition(folder / "new" / "researcher.toml").name == "researcher"


def test_agents_of_one_name_have_files_of_their_own(command: HeelerCommand, folder: Path) -> None:
    (folder / "old" / "twice.yaml").write_text("[{name: Ada, system: One}, {name: ada, system: 2}]")
    done = command.run(
        *("migrate", "yaml", str(folder / "old" / "twice.yaml"), "--to", str(folder / "new"))
    )
    assert (folder / "new" / "ada.toml").exists()
    assert done.code == ExitCode.REFUSED  # the prompt of the second is a number
    assert "ada-2.toml:1:1: error AGT101: `system_prompt` is missing" in done.out
