"""Files beside an agent's file: prompts, values of blocks, sources of tools."""

from __future__ import annotations

from collections.abc import Callable

from libs.agent_toml.definition import AgentDefinition
from libs.agent_toml.reporting import Reporter, quote
from libs.agent_toml.toml_positions import Path

# The text of a file, by its path from the folder of the agent's file. Raises OSError or
# UnicodeDecodeError.
ReadSibling = Callable[[str], str]
NO_FILES = (
    "only the text itself was sent, so no file beside it can be read: write its text here, or use"
    " `heeler apply`"
)


def with_siblings(
    definition: AgentDefinition, reporter: Reporter, read_sibling: ReadSibling | None
) -> AgentDefinition:
    """The definition with the texts of the files that it names; reports those that cannot be
    read."""
    changes: dict[str, object] = {}
    if definition.system_prompt_file is not None and definition.system_prompt is None:
        path: Path = ("system_prompt_file",)
        changes["system_prompt"] = _text(
            definition.system_prompt_file, path, reporter, read_sibling
        )
    changes["memory"] = [
        block
        if block.value_file is None or block.value is not None
        else block.model_copy(
            update={
                "value": _text(
                    block.value_file, ("memory", index, "value_file"), reporter, read_sibling
                )
            }
        )
        for index, block in enumerate(definition.memory)
    ]
    changes["tool"] = [
        tool
        if tool.file is None or tool.source is not None
        else tool.model_copy(
            update={"source": _text(tool.file, ("tool", index, "file"), reporter, read_sibling)}
        )
        for index, tool in enumerate(definition.tool)
    ]
    return definition.model_copy(update=changes)


def _text(
    name: str, path: Path, reporter: Reporter, read_sibling: ReadSibling | None
) -> str | None:
    """The text of a file; None, and a report, where it cannot be read."""
    problem = unsafe_path(name)
    if problem:
        reporter.error(path, "AGT205", f"{quote(name)} {problem}", expected="a path below here")
        return None
    if read_sibling is None:
        reporter.error(path, "AGT205", f"{quote(name)}: {NO_FILES}")
        return None
    try:
        return read_sibling(name)
    except UnicodeDecodeError:
        reporter.error(path, "AGT205", f"{quote(name)} is no UTF-8")
    except OSError as error:
        why = error.strerror or str(error) or "it cannot be read"
        reporter.error(path, "AGT205", f"{quote(name)}: {why}")
    return None


def unsafe_path(name: str) -> str:
    """Why a path leads out of the folder of the file; empty if it does not."""
    if name.startswith(("/", "~")) or "\\" in name or ":" in name:
        return "is no path from the folder of this file"
    if ".." in name.split("/"):
        return "leads out of the folder of this file"
    return ""
