"""No module imports itself by way of others: neither within a function, nor for its types only, nor
by `import_module` with a name."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from deploy.embedded.settings import CHECKOUT

OTHER = {
    "whole.py": "from circle.part import part\n",
    "part.py": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import circle.whole\n",
}
WITHIN = OTHER | {"part.py": "def part() -> None:\n    import circle.whole\n"}
BY_NAME = OTHER | {
    "part.py": "from importlib import import_module\n\nimport_module('circle.whole')\n"
}


def imports_of(root: Path, *packages: str) -> dict[str, set[str]]:
    """Which modules each module of these packages in the folder `root` imports."""
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=False, cache_dir=None)
    return {
        module: graph.find_modules_directly_imported_by(module)
        | (imported_by_name(root, module) & graph.modules - {module})
        for module in graph.modules
    }


def imported_by_name(root: Path, module: str) -> set[str]:
    """The names that a module gives to `import_module`."""
    path = root / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    nodes = ast.walk(ast.parse(file.read_text()))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    imports = [call for call in calls if ast.unparse(call.func).endswith("import_module")]
    arguments = [call.args[0] for call in imports]
    return {str(each.value) for each in arguments if isinstance(each, ast.Constant)}


def test_no_module_of_the_project_is_in_a_circle_of_imports() -> None:
    imports = imports_of(CHECKOUT, "cli", "libs", "services", "deploy")
    assert len(imports) > 100
    TopologicalSorter(imports).prepare()


@pytest.mark.parametrize(
    "modules", [OTHER, WITHIN, BY_NAME], ids=["for types", "in a function", "by a name"]
)
def test_a_hidden_circle_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modules: dict[str, str]
) -> None:
    package = tmp_path / "circle"
    package.mkdir()
    for name, text in {"__init__.py": "", **modules}.items():
        (package / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(CycleError, match=r"circle\.whole"):
        TopologicalSorter(imports_of(tmp_path, "circle")).prepare()
