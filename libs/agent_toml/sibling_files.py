"""Files beside an agent's file: prompts, values of blocks, sources of tools."""

from __future__ import annotations

from collections.abc import Callable

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter, quote
from libs.agent_toml.toml_positions import Path

# The text of a file, by its path from the folder of the agent's file. Raises OSError or
# UnicodeDecodeError.
ReadSibling = Callable[[str], str]
# Of all texts together, each as often as it is named.
TEXTS_CHARS_MAX = 4 << 20
NO_FILES = (
    "only the text itself was sent, so no file beside it can be read: write its text here, or use"
    " `heeler apply`"
)


def with_siblings(
    definition: AgentDefinition, reporter: Reporter, read_sibling: ReadSibling | None
) -> AgentDefinition:
    """The definition with the texts of the files that it names; reports those that cannot be
    read."""
    texts = SiblingTexts(reporter, read_sibling)
    changes: dict[str, object] = {}
    if definition.system_prompt_file is not None and definition.system_prompt is None:
        path: Path = ("system_prompt_file",)
        changes["system_prompt"] = texts.text(definition.system_prompt_file, path)
    changes["memory"] = [
        block
        if block.value_file is None or block.value is not None
        else block.model_copy(
            update={"value": texts.text(block.value_file, ("memory", index, "value_file"))}
        )
        for index, block in enumerate(definition.memory)
    ]
    changes["tool"] = [
        tool
        if tool.file is None or tool.source is not None
        else tool.model_copy(update={"source": texts.text(tool.file, ("tool", index, "file"))})
        for index, tool in enumerate(definition.tool)
    ]
    return definition.model_copy(update=changes)


class SiblingTexts:
    """The texts of the files beside a file, as many as it may name."""

    def __init__(self, reporter: Reporter, read_sibling: ReadSibling | None) -> None:
        self.reporter = reporter
        self.read_sibling = read_sibling
        self.chars = 0

    def text(self, name: str, path: Path) -> str | None:
        """The text of a file; None, and a report, where it cannot be read or is too much."""
        problem = unsafe_path(name)
        if problem:
            words = f"{quote(name)} {problem}"
            self.reporter.error(path, "AGT205", words, expected="a path below here")
            return None
        if self.read_sibling is None:
            self.reporter.error(path, "AGT205", f"{quote(name)}: {NO_FILES}")
            return None
        if self.chars > TEXTS_CHARS_MAX:
            return None
        try:
            text = self.read_sibling(name)
        except UnicodeDecodeError:
            self.reporter.error(path, "AGT205", f"{quote(name)} is no UTF-8")
            return None
        except OSError as error:
            why = error.strerror or str(error) or "it cannot be read"
            self.reporter.error(path, "AGT205", f"{quote(name)}: {why}")
            return None
        self.chars += len(text)
        if self.chars <= TEXTS_CHARS_MAX:
            return text
        words = f"{quote(name)} and the files before it have {self.chars} characters together"
        expected = f"at most {TEXTS_CHARS_MAX}, each file as often as it is named"
        self.reporter.error(path, "AGT002", words, expected=expected)
        return None


def unsafe_path(name: str) -> str:
    """Why a path leads out of the folder of the file; empty if it does not."""
    if name.startswith(("/", "~")) or "\\" in name or ":" in name:
        return "is no path from the folder of this file"
    if ".." in name.split("/"):
        return "leads out of the folder of this file"
    return ""
