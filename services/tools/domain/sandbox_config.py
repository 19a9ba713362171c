"""The settings of an organisation's sandbox: packages that all of its tools have, and variables."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from libs.contracts.base_aggregate import Aggregate
from libs.contracts.bus_messages import CONFLICT, NOT_FOUND, UNPROCESSABLE, Event, Rejected
from libs.contracts.tools.sandbox_configs import (
    VARIABLES_BYTES_MAX,
    VARIABLES_MAX,
    LocalSandboxConfig,
    PackagesRecreated,
    SandboxConfigChanged,
    SandboxConfigDeleted,
    SandboxVariableDeleted,
    SandboxVariableSet,
    SetSandboxConfig,
    SetSandboxVariable,
    UpdateSandboxVariable,
)
from services.tools.domain.package_requirements import problem_of_requirements


class SandboxVariable(BaseModel):
    """A variable; its value is sealed."""

    key: str
    value: str
    description: str | None = None


class SandboxConfigState(BaseModel):
    """The state of the settings; without a `config` there are none."""

    config: LocalSandboxConfig | None = None
    generation: int = 0
    variables: dict[str, SandboxVariable] = Field(default_factory=dict)


class SandboxConfig(Aggregate[SandboxConfigState]):
    """The settings of one organisation."""

    State = SandboxConfigState

    def set(self, command: SetSandboxConfig, *, at: datetime) -> Rejected | None:
        """Be as said; what stays the same is not an event. Packages are of all tools, so one that
        can be none is refused here, and not with the calls of all of them."""
        before = self.state.config
        if command.must_exist and before is None:
            return missing(self.id)
        wanted = before if command.only_default and before else command.config
        if wrong := problem_of_requirements(
            [(requirement.name, requirement.version) for requirement in wanted.pip_requirements]
        ):
            return Rejected(code=UNPROCESSABLE, reason=wrong)
        if wanted != before:
            self.record(SandboxConfigChanged, at=at, config=wanted, created=before is None)
        return None

    def delete(self, *, at: datetime) -> Rejected | None:
        """Have no settings and no variables."""
        if self.state.config is None:
            return missing(self.id)
        self.record(SandboxConfigDeleted, at=at)
        return None

    def recreate_packages(self, *, at: datetime) -> None:
        """Have all packages installed anew."""
        if self.state.config is None:
            new = LocalSandboxConfig()
            self.record(SandboxConfigChanged, at=at, config=new, created=True)
        self.record(PackagesRecreated, at=at, generation=self.state.generation + 1)

    def set_variable(self, command: SetSandboxVariable, *, at: datetime) -> str | Rejected:
        """Have a variable; returns its id, which is that of the one of its name."""
        if self.state.config is None:
            return missing(self.id)
        there = self.id_of_name(command.key)
        variable_id = there or command.variable_id
        wanted = SandboxVariable(
            key=command.key, value=command.value, description=command.description
        )
        if there and command.description is None:
            wanted.description = self.state.variables[there].description
        return self.becomes(variable_id, wanted, at=at) or variable_id

    def update_variable(self, command: UpdateSandboxVariable, *, at: datetime) -> Rejected | None:
        """Change what is given of a variable."""
        before = self.state.variables.get(command.variable_id)
        if before is None:
            return missing_variable(command.variable_id)
        given = command.model_dump(include={"key", "value", "description"}, exclude_none=True)
        wanted = before.model_copy(update=given)
        other = self.id_of_name(wanted.key)
        if other not in (None, command.variable_id):
            reason = f"`key`: {wanted.key} is another variable already: change or delete {other}"
            return Rejected(code=CONFLICT, reason=reason)
        return self.becomes(command.variable_id, wanted, at=at)

    def becomes(
        self, variable_id: str, wanted: SandboxVariable, *, at: datetime
    ) -> Rejected | None:
        """Have a variable as it is wanted, within the limits."""
        others = {id: kept for id, kept in self.state.variables.items() if id != variable_id}
        full = no_room([*others.values(), wanted])
        there = self.state.variables.get(variable_id)
        if full is None and there != wanted:
            fields = {"variable_id": variable_id, **dict(wanted), "created": there is None}
            self.record(SandboxVariableSet, at=at, **fields)
        return full

    def delete_variable(self, variable_id: str, *, at: datetime) -> Rejected | None:
        """Have a variable no more."""
        if variable_id not in self.state.variables:
            return missing_variable(variable_id)
        self.record(SandboxVariableDeleted, at=at, variable_id=variable_id)
        return None

    def id_of_name(self, key: str) -> str | None:
        """The id of the variable of a name."""
        return next((id for id, kept in self.state.variables.items() if kept.key == key), None)

    def when(self, event: Event) -> None:
        """Evolve the state by one event."""
        match event:
            case SandboxConfigChanged():
                self.state.config = event.config
            case SandboxConfigDeleted():
                self.state.config = None
                self.state.variables = {}
            case PackagesRecreated():
                self.state.generation = event.generation
            case SandboxVariableSet():
                self.state.variables[event.variable_id] = SandboxVariable(
                    key=event.key, value=event.value, description=event.description
                )
            case SandboxVariableDeleted():
                del self.state.variables[event.variable_id]


def no_room(variables: list[SandboxVariable]) -> Rejected | None:
    """The refusal of variables that every call would have to take along."""
    size = sum(
        len(variable.key) + len(variable.value) + len(variable.description or "")
        for variable in variables
    )
    if len(variables) > VARIABLES_MAX:
        reason = f"`key`: at most {VARIABLES_MAX} variables: delete one that has no use"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    if size > VARIABLES_BYTES_MAX:
        reason = f"`value`: at most {VARIABLES_BYTES_MAX} bytes for all variables, sealed: use less"
        return Rejected(code=UNPROCESSABLE, reason=reason)
    return None


def missing(config_id: str) -> Rejected:
    """The refusal for settings that are not there."""
    return Rejected(code=NOT_FOUND, reason=f"Sandbox config with ID {config_id} not found")


def missing_variable(variable_id: str) -> Rejected:
    """The refusal for a variable that is not there."""
    reason = f"Environment variable with ID {variable_id} not found"
    return Rejected(code=NOT_FOUND, reason=reason)
