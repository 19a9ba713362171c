"""A process whose settings cannot be used ends with one sentence, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.embedded.settings import CHECKOUT

SET = {"HEELER_DATABASE_URL": "postgresql://db", "HEELER_NATS_URL": "nats://bus"}


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("services.api", "HEELER_PING_SECONDS"),
        ("services.agent", "HEELER_RUN_SECONDS_MAX"),
        ("services.memory", "HEELER_LOG_LEVEL"),
        ("deploy.embedded up", "HEELER_PORT"),
        ("deploy.embedded up", "HEELER_PING_SECONDS"),
        ("deploy.embedded up", "HEELER_RUN_SECONDS_MAX"),
        ("deploy.containers up", "HEELER_PORT"),
        ("deploy.containers up", "HEELER_LOG_LEVEL"),
    ],
)
def test_a_process_ends_with_the_sentence_alone(module: str, name: str, tmp_path: Path) -> None:
    status, said = started(module, {"HEELER_HOME": str(tmp_path / "home"), name: "abc"})
    assert status == 1
    assert said.startswith(f"{name} is 'abc': it must be ")
    assert said.count("\n") == 1
    assert not (tmp_path / "home").exists()


def test_what_opentelemetry_itself_refuses_is_a_wrong_setting() -> None:
    name = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    status, said = started("services.memory", {**endpoint, name: "abc"})
    assert status == 1
    assert said.startswith(f"OpenTelemetry cannot use what its OTEL_* say: {name} must be")
    assert said.count("\n") == 1


def started(module: str, environment: Mapping[str, str]) -> tuple[int, str]:
    """The exit status of a process, and what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-m", *module.split()],
        cwd=CHECKOUT,
        env={**os.environ, **SET, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stderr
