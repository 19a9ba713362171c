"""The table of docs/security.md of what reads text from outside names every module that does so."""

from __future__ import annotations

import re
from pathlib import Path

from tests.slow_patterns import ROOT

PAGE = (ROOT / "docs/security.md").read_text().partition("## Text from outside")[2]
TABLE = PAGE.partition("\n## ")[0]
AREAS = (
    *("services/agent", "services/groups", "services/memory", "services/scheduler"),
    *("services/tools", "libs/embeddings", "libs/eventstore", "libs/telemetry"),
)
READS = re.compile(
    r"\bre2?\.(?:compile|match|search|fullmatch|sub|split|findall|finditer)\(|LimitedProcesses\("
)


def readers() -> set[str]:
    """The modules with a pattern, or with processes that have limits."""
    modules = (module for area in AREAS for module in (ROOT / area).rglob("*.py"))
    return {
        module.relative_to(ROOT).as_posix()
        for module in modules
        if READS.search(module.read_text())
    }


def test_every_module_that_reads_text_from_outside_stands_in_the_table() -> None:
    named = set(re.findall(r"`([\w/.]+\.py)`", TABLE))
    assert readers() - named == set()
    assert [name for name in sorted(named) if not Path(ROOT, name).is_file()] == []
