"""The edits that CONTRIBUTING.md tells: a file to write, or lines to add at a place in one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(diff|python) (\S+/\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADVICE = "if you moved or renamed it on purpose, change the edit in CONTRIBUTING.md likewise"


@dataclass(frozen=True)
class Edit:
    """One edit of a file: `new` stands where `old` stood, or is all of a new file."""

    path: str
    old: str | None
    new: str

    def apply(self, project: Path) -> None:
        """Make the edit in this copy of the project; the place has to be there exactly once."""
        file = project / self.path
        if self.old is None:
            assert not file.exists(), f"{self.path} is there already: {ADVICE}"
            file.write_text(self.new)
            return
        text = file.read_text()
        places = text.count(self.old)
        assert places == 1, f"{self.path} has {places} times:\n{self.old}{ADVICE}"
        file.write_text(text.replace(self.old, self.new))


def edit_of(kind: str, path: str, text: str) -> Edit:
    """The edit that a block of code of the page stands for."""
    if kind == "python":
        return Edit(path, None, text)
    lines = text.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    return Edit(path, old, new)


def commands() -> list[list[str]]:
    """The commands that the page says to run, each as its words."""
    page = (CHECKOUT / "CONTRIBUTING.md").read_text()
    lines = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)).splitlines()
    return [line.partition("#")[0].split() for line in lines]


def walks() -> Mapping[str, list[Edit]]:
    """The edits of each walk by its heading, in order."""
    page = (CHECKOUT / "CONTRIBUTING.md").read_text()
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    found = {
        section.partition("\n")[0]: [edit_of(*block) for block in BLOCK.findall(section)]
        for section in sections
    }
    return {heading: edits for heading, edits in found.items() if edits}
