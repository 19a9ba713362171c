"""How the tests look for programs that end meanwhile."""

from __future__ import annotations

import os

import psutil
import pytest

from tests.mcp_servers.programs import living


def test_a_process_that_ends_while_it_is_asked_is_none_that_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = psutil.Process(os.getpid())
    assert living({here}) == {here}

    def ended(process: psutil.Process) -> str:
        raise psutil.NoSuchProcess(process.pid)

    monkeypatch.setattr(psutil.Process, "status", ended)
    assert living({here}) == set()
