"""What a service reads from its environment."""

from __future__ import annotations

import pytest

from libs.bus.service_settings import ServiceSettings
from libs.contracts.environment_parsing import MissingSetting, WrongSetting

SET = {"HEELER_DATABASE_URL": "postgresql://db", "HEELER_NATS_URL": "nats://bus"}


@pytest.mark.parametrize("instance", ["", "agent-2", "4f1c9a.local", "heeler_agent"])
def test_an_instance_is_a_word(instance: str) -> None:
    settings = ServiceSettings.from_environment({**SET, "HEELER_INSTANCE": instance})
    assert settings == ServiceSettings("postgresql://db", "nats://bus", instance=instance)


def test_who_is_no_instance_needs_no_name() -> None:
    assert ServiceSettings.from_environment(SET).instance == ""


@pytest.mark.parametrize("instance", ["my agent", "agent/2", "agent.*", "a>", "ägent", "agent\n"])
def test_a_name_that_cannot_stand_on_the_bus_is_refused(instance: str) -> None:
    with pytest.raises(WrongSetting, match=r"HEELER_INSTANCE is .*: use letters, digits"):
        ServiceSettings.from_environment({**SET, "HEELER_INSTANCE": instance})


@pytest.mark.parametrize("name", SET)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(MissingSetting, match=f"{name} is not set"):
        ServiceSettings.from_environment({**SET, name: ""})
