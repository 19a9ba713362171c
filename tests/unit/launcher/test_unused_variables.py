"""What is set in vain is named, with what to use instead."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.embedded.service_settings import print_unused
from deploy.embedded.settings import CHECKOUT
from deploy.embedded.unused_variables import SET_BY_THE_LAUNCHER, unused_variables
from libs.contracts.configuration.catalogue import read_variables

# A constant of ours, and the mark of a process in the sandbox.
NONE_OF_A_PERSON = {"HEELER_VERSION", "HEELER_SPAWNER"}


def unused(**environment: str) -> dict[str, str]:
    return unused_variables(environment, read_variables())


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("LETTA_PG_URI", "its own Postgres"),
        ("LETTA_PG_PASSWORD", "its own Postgres"),
        ("LETTA_SERVER_SECURE", "HEELER_PASSWORD"),
        ("LETTA_SOMETHING_ELSE", "docs/configuration.md"),
        ("VLLM_API_BASE", "OPENAI_API_BASE"),
        ("LMSTUDIO_BASE_URL", "OPENAI_API_BASE"),
        ("GEMINI_API_KEY", "OPENAI_API_KEY"),
        ("LETTA_ENCRYPTION_KEY", "HEELER_ENCRYPTION_KEYS"),
        ("HEELER_REPLICA", "HEELER_REPLICAS?"),
        ("HEELER_TEAPOT", "no such variable"),
        ("HEELER_DATABASE_URL", "the launcher sets it itself"),
    ],
)
def test_a_variable_that_nobody_reads_is_named_with_what_to_use(
    name: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {name: "hunter2"}

    print_unused(environment)

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{name} is not used: ")
    assert instead in line
    assert "hunter2" not in line


def test_what_is_read_is_not_named_and_what_is_empty_neither() -> None:
    assert not unused(
        OPENAI_API_KEY="k",
        OLLAMA_BASE_URL="http://localhost:11434",
        LETTA_SERVER_PASSWORD="p",
        LETTA_OTEL_EXPORTER_OTLP_ENDPOINT="http://localhost:4317",
        HEELER_REPLICAS="2",
        HEELER_PACKAGES_DENIED="left-pad",
        HEELER_ALLOWED_TOOLS="none",
        PATH="/bin",
        GEMINI_API_KEY="",
        HEELER_TEAPOT="",
    )


def test_what_clients_and_letta_code_read_is_left_alone() -> None:
    assert not unused(
        LETTA_API_KEY="k",
        LETTA_BASE_URL="http://localhost:8283",
        LETTA_AGENT_ID="agent-1",
        LETTA_CUSTOM_HEADERS="a: b",
        LETTA_LOG="debug",
        LETTA_CODE_TELEM="0",
        LETTA_MEMFS_LOCAL="1",
    )


def test_every_variable_in_the_readme_and_in_the_code_is_known() -> None:
    files = [CHECKOUT / "README.md", CHECKOUT / "Makefile", CHECKOUT / "docs" / "configuration.md"]
    for folder in ("cli", "libs", "services"):
        files += (CHECKOUT / folder).rglob("*.py")
    found = set().union(*map(variables_in, files)) - NONE_OF_A_PERSON - {*SET_BY_THE_LAUNCHER}
    assert {"HEELER_SANDBOX", "HEELER_PACKAGES_DENIED"} <= found

    assert unused_variables(dict.fromkeys(found, "set"), read_variables()) == {}


def variables_in(file: Path) -> set[str]:
    return set(re.findall(r"\bHEELER_[A-Z][A-Z_]*[A-Z]\b", file.read_text()))
