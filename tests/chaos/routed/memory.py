"""The memory service behind wires."""

from tests.chaos.routed import run

run("memory")
