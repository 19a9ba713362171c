"""Options of a request to import an agent file, and the things that are there already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

COPY_SUFFIX = "_copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import of an agent file.

    All ids follow from `import_id`, so that a second reading names everything the same. `name` is
    that of the first agent. The values of `secrets` are sealed. `model` is the handle of the model
    that every agent gets once it is there.

    A tool that the file defines needs an approval for each call, unless they are `tools_accepted`.
    Only then a client's tool of the same name gets the definition of the file, if they say
    `override_existing_tools`: every agent that has it would run the code of the file. MCP servers
    are made only if they are `tools_accepted`, too, because to make one is to start its command or
    to open a connection.
    """

    import_id: str
    now: datetime
    actor: str | None = None
    name: str | None = None
    append_copy_suffix: bool = False
    override_existing_tools: bool = False
    tools_accepted: bool = False
    project_id: str | None = None
    strip_messages: bool = False
    secrets: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentThings:
    """The things of the organisation that a file names: its clients' tools and those of MCP servers
    (ids by name, and what code they have), and names of folders and of MCP servers."""

    tools: Mapping[str, str] = field(default_factory=dict)
    tool_sources: Mapping[str, str | None] = field(default_factory=dict)
    folder_names: frozenset[str] = frozenset()
    mcp_server_names: frozenset[str] = frozenset()


NOTHING_PRESENT = PresentThings()
