"""No module imports itself by way of others, neither within a function nor for its types only."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

OTHER = {
    "whole.py": "from circle.part import part\n",
    "part.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import circle.whole\n",
}
WITHIN = OTHER | {"part.py": "def part() -> None:\n    import circle.whole\n"}


def imports_of(*packages: str) -> dict[str, set[str]]:
    """Which modules each module of these packages imports."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    return {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}


def test_no_module_of_the_project_is_in_a_circle_of_imports() -> None:
    imports = imports_of("cli", "libs", "services", "deploy")
    assert len(imports) > 100
    TopologicalSorter(imports).prepare()


@pytest.mark.parametrize("modules", [OTHER, WITHIN], ids=["for types", "in a function"])
def test_a_hidden_circle_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: dict[str, str]
) -> None:
    package = tmp_path / "circle"
    package.mkdir()
    for name, text in {"__init__.py": "", **modules}.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(CycleError, match=r"circle\.whole"):
        TopologicalSorter(imports_of("circle")).prepare()
