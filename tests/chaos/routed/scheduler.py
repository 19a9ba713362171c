"""The scheduler service behind wires."""

from tests.chaos.routed import run

run("scheduler")
