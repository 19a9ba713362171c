"""The language of templates: agents as saved values with versions, from which agents are made."""

from __future__ import annotations

import re
from operator import not_
from typing import Literal

from pydantic import Field

from libs.contracts.bus_messages import Command, Event, JsonObject, Value, is_none
from libs.contracts.deterministic_ids import derived_id
from libs.contracts.letta.block_requests import BLOCK_LIMIT_CHARS
from libs.contracts.sealed_text import Sealed

SERVICE = "api"

TEMPLATES_MAX = 1_000  # of an organisation
VERSIONS_MAX = 200  # of a template
CONTENT_BYTES_MAX = 1 << 20
AGENTS_MAX = 20  # of a template
BLOCKS_MAX = 100  # of a template
NAME_CHARS_MAX = 100
DESCRIPTION_CHARS_MAX = 2_000
MESSAGE_CHARS_MAX = 2_000
VARIABLES_MAX = 200  # of one kind, of a template

# The project of templates that name none.
DEFAULT_PROJECT = "default"
# A variable in the value of a block.
VARIABLE = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.\-]{0,99})\s*\}\}")

TemplateType = Literal[
    "classic",
    "cluster",
    "sleeptime",
    "round_robin",
    "supervisor",
    "dynamic",
    "voice_sleeptime",
]
BlockStrategy = Literal["reconcile-all", "preserve-deleted"]


def template_name_id(org: str, project_id: str, name: str) -> str:
    """The id of the aggregate that guards the name of a template in a project."""
    return derived_id("template_name", org, project_id, name)


def version_id(template_id: str, number: int) -> str:
    """The id of a saved version of a template: what agents made from it have as `template_id`. The
    template's own id is that of its working version, and their `base_template_id`."""
    return derived_id("template", template_id, str(number)) if number else template_id


def variables_of(text: str) -> list[str]:
    """The names of the variables in a text, each once, in their order."""
    return list(dict.fromkeys(VARIABLE.findall(text)))


class TemplateAgent(Value):
    """An agent of a template. `fields` are those of a request to create it, without its name, its
    blocks and its secrets; `tool_variables` are the names of its secrets, each with a sealed value
    or with none."""

    entity_id: str
    name: str = ""
    fields: JsonObject
    tool_variables: dict[str, Sealed | None] = Field(default_factory=dict)


class TemplateBlock(Value):
    """A block of a template, in whose value `{{name}}` is a variable, and which agents have it."""

    entity_id: str
    label: str
    value: str
    limit: int = BLOCK_LIMIT_CHARS
    description: str | None = None
    read_only: bool = False
    preserve_on_migration: bool = False
    hidden: bool | None = Field(default=None, exclude_if=is_none)
    metadata: JsonObject = Field(default_factory=dict, exclude_if=not_)
    tags: list[str] = Field(default_factory=list, exclude_if=not_)
    agents: list[str] = Field(default_factory=list)


class TemplateGroup(Value):
    """The group of a template's agents: the settings of their group's manager, who is named by its
    entity."""

    manager_entity_id: str | None = None
    settings: JsonObject = Field(default_factory=dict)


class TemplateContent(Value):
    """The content of a template: agents, their blocks, and their group, if they are one."""

    type: TemplateType = "classic"
    agents: list[TemplateAgent]
    blocks: list[TemplateBlock] = Field(default_factory=list)
    group: TemplateGroup | None = Field(default=None, exclude_if=is_none)


class MigrationOptions(Value):
    """The parts that agents keep of their own when they move to another version of their
    template."""

    preserve_tool_variables: bool = False
    preserve_core_memories: bool = False
    preserve_sources: bool = False
    block_strategy: BlockStrategy = "preserve-deleted"


class TemplateCommand(Command, service=SERVICE):
    """A command about one template."""

    template_id: str

    @property
    def target(self) -> str:
        return self.template_id


class CreateTemplate(TemplateCommand, topic="template.create"):
    """Save a new template as its version 1; a name that another template of the project has is
    refused."""

    project_id: str
    name: str
    description: str = ""
    content: TemplateContent


class ChangeTemplate(TemplateCommand, topic="template.change"):
    """Give the working version of a template another content; with `save_first` what it has and no
    saved version has becomes a version before."""

    content: TemplateContent
    save_first: bool = False


class SaveTemplateVersion(TemplateCommand, topic="template.save_version"):
    """Save the working version of a template under the next number, and, with `migration`, have the
    agents that were made from the template become what it says."""

    message: str = ""
    migration: MigrationOptions | None = None


class RollBackTemplate(TemplateCommand, topic="template.roll_back"):
    """Make a saved version of a template its working version; what that had and no saved version
    has becomes a version before.

    Version 0 is the latest."""

    version: int


class RenameTemplate(TemplateCommand, topic="template.rename"):
    """Give a template another name, or another description."""

    name: str | None = None
    description: str | None = None


class DeleteTemplate(TemplateCommand, topic="template.delete"):
    """Remove a template with all its versions; the agents that were made from it stay."""


class TemplateCreated(Event, service=SERVICE, topic="template.created"):
    """A template exists."""

    project_id: str
    name: str
    description: str = ""
    content: TemplateContent


class TemplateChanged(Event, service=SERVICE, topic="template.changed"):
    """The working version of a template has another content; `rolled_back_to` is the saved version
    that it was taken from, 0 for none."""

    content: TemplateContent
    rolled_back_to: int = Field(default=0, exclude_if=not_)


class TemplateVersionSaved(Event, service=SERVICE, topic="template.version_saved"):
    """A version of a template is saved for good; with `migration` agents follow to it."""

    number: int
    message: str = ""
    content: TemplateContent
    migration: MigrationOptions | None = Field(default=None, exclude_if=is_none)


class TemplateRenamed(Event, service=SERVICE, topic="template.renamed"):
    """A template has this name and this description."""

    name: str
    description: str


class TemplateDeleted(Event, service=SERVICE, topic="template.deleted"):
    """A template is gone, with all its versions."""


class TemplateNameTaken(Event, service=SERVICE, topic="template_name.taken"):
    """A template of a project has this name, and no other one may have it."""

    name: str = ""  # as it was before the log kept none
    template_id: str

    @property
    def about(self) -> str:
        return self.template_id


class TemplateNameFreed(Event, service=SERVICE, topic="template_name.freed"):
    """No template of the project has this name any more."""

    name: str = ""  # as it was before the log kept none
    template_id: str

    @property
    def about(self) -> str:
        return self.template_id
