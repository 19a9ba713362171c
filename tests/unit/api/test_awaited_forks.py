"""Forks that have somebody, and those that have nobody any more."""

from __future__ import annotations

import pytest

from services.api.adapters.agents import awaited_forks
from services.api.adapters.agents.awaited_forks import AwaitedForks


def test_a_fork_stays_with_the_client_that_was_answered_with_it() -> None:
    forks = AwaitedForks()
    with forks.taking("import-1"):
        assert "import-1" in forks
    assert forks.ids == ["import-1"]


def test_a_fork_whose_client_has_gone_has_nobody() -> None:
    forks = AwaitedForks()
    with pytest.raises(ConnectionError), forks.taking("import-1"):
        raise ConnectionError
    assert "import-1" not in forks


def test_no_more_forks_are_remembered_than_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(awaited_forks, "KNOWN_MAX", 2)
    forks = AwaitedForks()
    for number in range(3):
        with forks.taking(f"import-{number}"):
            pass
    assert forks.ids == ["import-1", "import-2"]
