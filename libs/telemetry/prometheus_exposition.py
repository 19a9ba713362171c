"""The metrics of a process as text for Prometheus, and those of several processes as one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from libs.telemetry.metrics import REGISTRY

CONTENT_TYPE = "text/plain; version=0.0.4"

# A container's processes all have the same numbers, and a machine's the same name.
PROCESS = f"{socket.gethostname()}:{os.getpid()}"

# The families of one process: by name, the heading and the samples.
type Families = Mapping[str, tuple[str, str]]


class Only(Collector):
    """A registry of one family."""

    def __init__(self, family: Metric) -> None:
        self.family = family

    def collect(self) -> Iterator[Metric]:
        """The family."""
        yield self.family


def families(
    process: str = PROCESS, registry: CollectorRegistry = REGISTRY
) -> dict[str, tuple[str, str]]:
    """What a process counts, each sample with the label `process`."""
    found = {}
    for family in registry.collect():
        family.samples = [
            sample._replace(labels={**sample.labels, "process": process})
            for sample in family.samples
        ]
        lines = generate_latest(Only(family)).decode().splitlines(keepends=True)
        found[family.name] = ("".join(lines[:2]), "".join(lines[2:]))
    return found


def merged(processes: Iterable[Families]) -> str:
    """One text, as Prometheus wants it: each family once, with the samples of all processes."""
    together: dict[str, list[str]] = {}
    for each in processes:
        for name, (heading, samples) in each.items():
            together.setdefault(name, [heading]).append(samples)
    return "".join(part for parts in together.values() for part in parts)
