"""Commands about the settings of the sandbox: load, decide, save, reply."""

from __future__ import annotations

from collections.abc import Mapping

from libs.bus.command_dispatcher import Handler
from libs.bus.ports import Clock
from libs.contracts.bus_messages import Accepted, Command, Rejected
from libs.contracts.tools.sandbox_configs import (
    DeleteSandboxConfig,
    DeleteSandboxVariable,
    RecreatePackages,
    SetSandboxConfig,
    SetSandboxVariable,
    UpdateSandboxVariable,
)
from libs.eventstore.unit_of_work import UnitOfWork
from services.tools.domain.sandbox_config import SandboxConfig


class SandboxConfigHandlers:
    """The handlers of commands to the settings."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def table(self) -> Mapping[type[Command], Handler]:
        """The handler of each command."""
        return {
            SetSandboxConfig: self.set_config,
            DeleteSandboxConfig: self.delete_config,
            RecreatePackages: self.recreate_packages,
            SetSandboxVariable: self.set_variable,
            UpdateSandboxVariable: self.update_variable,
            DeleteSandboxVariable: self.delete_variable,
        }

    async def set_config(self, command: SetSandboxConfig, work: UnitOfWork) -> Accepted | Rejected:
        """Change the settings of the sandbox."""
        config = await work.load(SandboxConfig, command.config_id)
        return config.set(command, at=self.clock.now()) or Accepted()

    async def delete_config(
        self, command: DeleteSandboxConfig, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Delete the settings of the sandbox."""
        config = await work.load(SandboxConfig, command.config_id)
        return config.delete(at=self.clock.now()) or Accepted()

    async def recreate_packages(
        self, command: RecreatePackages, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Install the packages of the sandbox anew."""
        config = await work.load(SandboxConfig, command.config_id)
        config.recreate_packages(at=self.clock.now())
        return Accepted()

    async def set_variable(
        self, command: SetSandboxVariable, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Set an environment variable of the sandbox."""
        config = await work.load(SandboxConfig, command.config_id)
        done = config.set_variable(command, at=self.clock.now())
        return done if isinstance(done, Rejected) else Accepted(result={"variable_id": done})

    async def update_variable(
        self, command: UpdateSandboxVariable, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Change an environment variable of the sandbox."""
        config = await work.load(SandboxConfig, command.config_id)
        return config.update_variable(command, at=self.clock.now()) or Accepted()

    async def delete_variable(
        self, command: DeleteSandboxVariable, work: UnitOfWork
    ) -> Accepted | Rejected:
        """Have a variable no more."""
        config = await work.load(SandboxConfig, command.config_id)
        return config.delete_variable(command.variable_id, at=self.clock.now()) or Accepted()
