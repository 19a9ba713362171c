"""R40: on a slow machine everything comes up in its own time. Here the services alone are slow;
`make chaos ARGS="--only R40"` slows everything."""

from __future__ import annotations

import pytest

from deploy.embedded.settings import SERVICES
from tests.chaos.slow_machines import SHARE, ended_for_being_ill, message_answered
from tests.servers import HeelerInstance
from tests.slow_machine import slowed


@pytest.mark.timeout(900)
def test_r40_services_at_three_percent_of_a_core_come_up_and_none_is_killed() -> None:
    instance = HeelerInstance(env={"HEELER_PROCESSES": "each"})
    try:
        with slowed(instance.home, SERVICES, SHARE):
            output = instance.up()
            assert ended_for_being_ill(instance) == []
            message_answered(instance)
            assert "stopped" in instance.down()
        assert ended_for_being_ill(instance) == []
        assert "waiting for" in output
    finally:
        instance.close()
