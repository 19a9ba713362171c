"""A template: what agents are made from, its working version and the saved ones."""

from __future__ import annotations

import re
from datetime import datetime

from pydantic import BaseModel
from pydantic_core import to_json

from libs.contracts.api.templates import (
    DESCRIPTION_CHARS_MAX,
    MESSAGE_CHARS_MAX,
    NAME_CHARS_MAX,
    VERSIONS_MAX,
    CreateTemplate,
    MigrationOptions,
    TemplateChanged,
    TemplateContent,
    TemplateCreated,
    TemplateDeleted,
    TemplateNameFreed,
    TemplateNameTaken,
    TemplateRenamed,
    TemplateVersionSaved,
)
from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Event, Rejected
from libs.contracts.unique_names import UniqueName
from services.api.domain.template_content import refusal_of_content

NAME = re.compile(rf"[A-Za-z0-9_-]{{1,{NAME_CHARS_MAX}}}", re.ASCII)
# Ends of paths that a template of this name would hide behind.
RESERVED_NAMES = frozenset({"agents", "save", "rollback", "versions", "snapshot", "fork"})
FIRST_MESSAGE = "Created"
BEFORE_CHANGE = "Saved before the working version was replaced"
BEFORE_ROLLBACK = "Saved before the working version was rolled back"


class TemplateName(UniqueName):
    """The name of a template: one template of a project has it at a time."""

    taken, freed, owner_field = TemplateNameTaken, TemplateNameFreed, "template_id"


class TemplateState(BaseModel):
    """The state of a template. `saved` is whether the working version is a saved one too;
    `migrating_to` is the last version that agents follow to, 0 for none."""

    project_id: str = ""
    name: str = ""
    description: str = ""
    content: TemplateContent | None = None
    latest: int = 0
    saved: bool = False
    migrating_to: int = 0
    migration: MigrationOptions | None = None
    deleted: bool = False


class Template(Aggregate[TemplateState]):
    """One template."""

    State = TemplateState

    @property
    def deleted(self) -> bool:
        """Whether it has stopped existing."""
        return self.state.deleted

    @property
    def present(self) -> TemplateState | None:
        """The template, unless it is gone or was never there."""
        return self.state if self.exists and not self.state.deleted else None

    def create(self, command: CreateTemplate, *, at: datetime) -> Rejected | None:
        """Begin to exist, and save that as version 1. The same again is no event."""
        if self.exists:
            there = self.present
            if there and (there.name, there.content) == (command.name, command.content):
                return None
            return Rejected(code=CONFLICT, reason=f"Template {self.id} exists already")
        refused = (
            refusal_of_name(command.name)
            or refusal_of_length("description", command.description, DESCRIPTION_CHARS_MAX)
            or refusal_of_content(command.content)
        )
        if refused:
            return refused
        self.record(
            TemplateCreated,
            at=at,
            project_id=command.project_id,
            name=command.name,
            description=command.description,
            content=command.content,
        )
        self.save(FIRST_MESSAGE, None, at=at)
        return None

    def change(
        self, content: TemplateContent, *, save_first: bool, at: datetime
    ) -> Rejected | None:
        """Have another working version; the same content is no event."""
        if self.present is None:
            return missing(self.id)
        refused = refusal_of_content(content)
        if refused or digest(content) == digest(self.content):
            return refused
        if save_first:
            refused = self.save_unsaved(BEFORE_CHANGE, at=at)
        if refused is None:
            self.record(TemplateChanged, at=at, content=content)
        return refused

    def roll_back(self, version: int, content: TemplateContent, *, at: datetime) -> Rejected | None:
        """Have a saved version as the working one; what is not saved yet becomes a version."""
        if self.present is None:
            return missing(self.id)
        if digest(content) == digest(self.content):
            return None
        refused = self.save_unsaved(BEFORE_ROLLBACK, at=at)
        if refused is None:
            self.record(TemplateChanged, at=at, content=content, rolled_back_to=version)
        return refused

    def save(
        self, message: str, migration: MigrationOptions | None, *, at: datetime
    ) -> Rejected | None:
        """Save the working version under the next number."""
        if self.present is None:
            return missing(self.id)
        refused = refusal_of_length("message", message, MESSAGE_CHARS_MAX)
        if refused:
            return refused
        if self.state.latest >= VERSIONS_MAX:
            reason = f"The template has {VERSIONS_MAX} versions, which is the most: fork it"
            return Rejected(code=CONFLICT, reason=reason)
        self.record(
            TemplateVersionSaved,
            at=at,
            number=self.state.latest + 1,
            message=message,
            content=self.content,
            migration=migration,
        )
        return None

    def save_unsaved(self, message: str, *, at: datetime) -> Rejected | None:
        """Save the working version, unless a saved one is the same."""
        return None if self.state.saved else self.save(message, None, at=at)

    def rename(self, name: str, description: str, *, at: datetime) -> Rejected | None:
        """Have this name and this description; the same again is no event."""
        if self.present is None:
            return missing(self.id)
        refused = None if name == self.state.name else refusal_of_name(name)
        refused = refused or refusal_of_length("description", description, DESCRIPTION_CHARS_MAX)
        if refused is None and (name, description) != (self.state.name, self.state.description):
            self.record(TemplateRenamed, at=at, name=name, description=description)
        return refused

    def delete(self, *, at: datetime) -> Rejected | None:
        """Stop existing, if it does exist."""
        if self.present is None:
            return missing(self.id)
        self.record(TemplateDeleted, at=at)
        return None

    @property
    def content(self) -> TemplateContent:
        """The content of the working version."""
        assert self.state.content is not None, "only a template that exists has a content"
        return self.state.content

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        state = self.state
        match event:
            case TemplateCreated():
                state.project_id, state.name = event.project_id, event.name
                state.description, state.content = event.description, event.content
            case TemplateChanged():
                state.content, state.saved = event.content, event.rolled_back_to > 0
            case TemplateVersionSaved():
                state.latest, state.saved = event.number, True
                if event.migration is not None:
                    state.migrating_to, state.migration = event.number, event.migration
            case TemplateRenamed():
                state.name, state.description = event.name, event.description
            case TemplateDeleted():
                self.state = TemplateState(deleted=True)


def digest(content: TemplateContent) -> bytes:
    """A digest of a content."""
    return to_json(content.model_dump(mode="json"))


def refusal_of_name(name: str) -> Rejected | None:
    """The refusal of what is no name of a template."""
    if NAME.fullmatch(name) and name not in RESERVED_NAMES:
        return None
    reason = (
        f"`name`: '{name[:50]}' is no name of a template: use 1 to {NAME_CHARS_MAX} letters,"
        f" digits, '_' and '-', and none of {', '.join(sorted(RESERVED_NAMES))}"
    )
    return Rejected(code=UNPROCESSABLE, reason=reason)


def refusal_of_length(field: str, text: str, chars_max: int) -> Rejected | None:
    """The refusal of a text that is too long."""
    if len(text) <= chars_max:
        return None
    reason = f"`{field}`: at most {chars_max} characters, and this has {len(text)}: shorten it"
    return Rejected(code=UNPROCESSABLE, reason=reason)


def missing(template_id: str) -> Rejected:
    """The refusal for a template that is not there."""
    return Rejected(code=NOT_FOUND, reason=f"Template with ID {template_id} not found")


def refuse_taken_name(name: str) -> Rejected:
    """The refusal of a name that another template has."""
    reason = f"Template '{name}' already exists in this project: choose another `name`"
    return Rejected(code=CONFLICT, reason=reason)
