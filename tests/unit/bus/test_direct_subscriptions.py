"""Who hears messages directly hears each, and a bug of his does not end the reading."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from libs.bus.nats_deltas import Direct


def test_a_bug_of_the_hearer_is_logged_and_the_next_message_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[str] = []

    def hear(message: Any) -> None:
        if message.subject == "bad":
            raise RuntimeError("a bug")
        heard.append(message.subject)

    direct = Direct(hear)
    with caplog.at_level(logging.ERROR):
        for subject in ("one", "bad", "two"):
            assert not direct.cancelled()
            direct.set_result(SimpleNamespace(subject=subject))  # type: ignore[arg-type]

    assert heard == ["one", "two"]
    assert "a message to bad is lost" in caplog.text
