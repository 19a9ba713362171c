"""Files of agents through the API: checked, made, and written back from what was made."""

from __future__ import annotations

from typing import Any

import httpx

from libs.agent_toml import AgentDefinition, from_server, read, to_create_request, write
from libs.agent_toml.json_schema import json_schema
from tests.e2e.asking import EMBEDDING, MODEL, unique
from tests.heeler_command import HeelerCommand

GOOD = 'name = "ada"\ndescription = "d"\nmodel = "openai/gpt-4.1"\nsystem_prompt = "Hi."\n'
TOML = {"content-type": "application/toml"}


def test_a_file_is_checked_as_text_and_as_json(http: httpx.Client) -> None:
    good = http.post("/v1/agents/validate", content=GOOD, headers=TOML)
    assert (good.status_code, good.json()) == (200, {"valid": True, "errors": [], "warnings": []})
    bad = http.post("/v1/agents/validate", content=GOOD + "timezon = 'UTC'\n", headers=TOML).json()
    assert bad["valid"] is False
    [error] = bad["errors"]
    assert (error["line"], error["column"], error["code"]) == (5, 1, "AGT102")
    assert (error["suggestion"], error["docs"]) == ("timezone", "docs/agent-errors.md#agt102")

    text = GOOD.replace('system_prompt = "Hi."', 'system_prompt_file = "ada.md"')
    sent: dict[str, Any] = {"toml": text, "files": {"ada.md": "Hi."}}
    assert http.post("/v1/agents/validate", json=sent).json()["valid"] is True
    missing = http.post("/v1/agents/validate", json={"toml": text}).json()
    assert [error["code"] for error in missing["errors"]] == ["AGT205"]


def test_the_environment_and_strictness_are_parameters(http: httpx.Client) -> None:
    text = GOOD + 'tools = ["web_search"]\n'
    production = {"environment": "production"}
    asked = http.post("/v1/agents/validate", params=production, content=text, headers=TOML).json()
    assert [error["code"] for error in asked["errors"]] == ["SEC003"]
    bare = 'name = "ada"\nsystem_prompt = "Hi."\n'
    loose = http.post("/v1/agents/validate", content=bare, headers=TOML).json()
    assert (loose["valid"], len(loose["warnings"])) == (True, 2)
    strict = http.post(
        "/v1/agents/validate", params={"strict": True}, content=bare, headers=TOML
    ).json()
    assert (strict["valid"], len(strict["errors"])) == (False, 2)


def test_what_cannot_be_checked_is_refused_with_the_field(http: httpx.Client) -> None:
    large = http.post("/v1/agents/validate", content="#" * (600 << 10), headers=TOML)
    assert large.status_code == 422
    assert "toml" in large.text
    assert http.post("/v1/agents/validate", json={"tomml": "x"}).status_code == 422
    assert http.post("/v1/agents/validate", content=b"\xff", headers=TOML).status_code == 422
    assert http.post("/v1/agents/validate", json={"toml": 3}).status_code == 422


def test_the_schema_is_served(http: httpx.Client) -> None:
    answer = http.get("/v1/schemas/agent")
    assert answer.headers["content-type"].startswith("application/schema+json")
    assert answer.json() == json_schema()


def test_an_agent_made_of_a_file_is_written_as_a_file_that_makes_the_same(
    http: httpx.Client,
) -> None:
    prompt = 'You are Ada.\n\n\t"Brief", and C:\\paths.\n'
    first = AgentDefinition.model_validate(
        {
            "name": unique("ada"),
            "description": "Answers.",
            "system_prompt": prompt,
            "model": MODEL,
            "embedding": EMBEDDING,
            "tags": ["a", "b"],
            "timezone": "Europe/Berlin",
            "tools": ["conversation_search", "run_code"],
            "include_base_tools": False,
            "capabilities": ["weather"],
            "model_settings": {"temperature": 0.5, "max_output_tokens": 500},
            "context_window": 16000,
            "limits": {"max_files_open": 3},
            "metadata": {"team": {"name": "x", "size": 3}},
            "memory": [
                {"label": "human", "value": "Bob\n", "limit": 500, "read_only": True},
                {"label": "notes", "value": "", "description": "Notes.", "metadata": {"a": 1}},
            ],
            "tool_rules": [
                {"type": "max_count_per_step", "tool_name": "run_code", "max_count_limit": 2}
            ],
        }
    )
    made = http.post("/v1/agents/", json=to_create_request(first)).json()
    assert "id" in made, made
    written = from_server(made)
    text = write(written)
    assert read(text, rules=None).definition == written

    for key in ("name", "system_prompt", "description", "model", "embedding", "timezone"):
        assert getattr(written, key) == getattr(first, key)
    for key in ("tags", "tools", "capabilities", "context_window", "limits", "metadata"):
        assert getattr(written, key) == getattr(first, key)
    assert [block.model_dump() for block in written.memory[1:]] == [
        block.model_dump() for block in first.memory[1:]
    ]
    assert written.memory[0].value == "Bob\n"
    assert first.tool_rules[0] in written.tool_rules
    assert written.model_settings is not None
    assert (written.model_settings.temperature, written.model_settings.max_output_tokens) == (
        *(0.5, 500),
    )

    again = http.post("/v1/agents/", json=to_create_request(written)).json()
    assert from_server(again) == written


def test_the_server_is_asked_for_models_and_tools(
    heeler_command: HeelerCommand, tmp_path: Any
) -> None:
    file = tmp_path / "ada.toml"
    file.write_text(GOOD.replace("openai/gpt-4.1", MODEL) + 'tools = ["run_code", "run_cod"]\n')
    checked = heeler_command.run("validate", str(file), "--on-server", "--json")
    assert checked.code == 4, checked.err
    errors = [problem for problem in checked.json if problem["severity"] == "error"]
    assert [(error["code"], error["suggestion"]) for error in errors] == [("AGT302", "run_code")]
