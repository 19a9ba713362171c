"""The metrics of a process as text for Prometheus, and those of several processes as one.

A server that has been used widely counts thousands of samples, and nearly all of them belong to
histograms of which few change between two scrapes. So each keeps its text until it counts again.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import cast
from weakref import WeakKeyDictionary

from prometheus_client import Counter, Histogram, Metric, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from libs.telemetry.metrics import REGISTRY

CONTENT_TYPE = "text/plain; version=0.0.4"
HEADING_LINES = 2
PROCESS_LABEL = "process"

# The families of one process: by name, the heading and the samples.
type Families = Mapping[str, tuple[str, str]]

# What each child of a metric, such as the requests of one route, had counted when its text was
# made, and the text.
KEPT: WeakKeyDictionary[Counter | Histogram, tuple[tuple[object, ...], str]] = WeakKeyDictionary()


class Only(Collector):
    """A registry of one family."""

    def __init__(self, family: Metric) -> None:
        self.family = family

    def collect(self) -> Iterator[Metric]:
        """Yield the one family of metrics."""
        yield self.family


def process_name() -> str:
    """The name of this process among those of all machines: a container's processes all have the
    same numbers, and a machine's the same name."""
    return f"{socket.gethostname()}:{os.getpid()}"


def families(
    process: str | None = None, registry: CollectorRegistry = REGISTRY
) -> dict[str, tuple[str, str]]:
    """The metrics of a process, this one unless another is named, each sample with the label
    `process`."""
    process = process or process_name()
    found = {}
    for metric in [*registry._collector_to_names]:
        if isinstance(metric, Counter | Histogram) and metric._labelnames:
            found[metric._name] = text_of_children(metric, process)
        else:
            for family in metric.collect():
                found[family.name] = text_of(family, {PROCESS_LABEL: process})
    return found


def text_of_children(metric: Counter | Histogram, process: str) -> tuple[str, str]:
    """The heading and the samples of a metric with labels."""
    heading, _ = text_of(Metric(metric._name, metric._documentation, str(metric._type)), {})
    children = cast(dict[tuple[str, ...], Counter | Histogram], metric._metrics).copy()
    samples = (
        text_of_child(
            child, {**dict(zip(metric._labelnames, values, strict=True)), PROCESS_LABEL: process}
        )
        for values, child in children.items()
    )
    return heading, "".join(samples)


def text_of_child(child: Counter | Histogram, labels: Mapping[str, str]) -> str:
    """The samples of what one set of labels has counted."""
    state = (labels[PROCESS_LABEL], *counted_by(child))
    kept = KEPT.get(child)
    if kept is not None and kept[0] == state:
        return kept[1]
    [family] = child.collect()
    _, text = text_of(family, labels)
    KEPT[child] = (state, text)
    return text


def counted_by(child: Counter | Histogram) -> tuple[float, ...]:
    """Numbers that change whenever it counts."""
    if isinstance(child, Counter):
        return (child._value.get(),)
    return (child._sum.get(), *(bucket.get() for bucket in child._buckets))


def text_of(family: Metric, labels: Mapping[str, str]) -> tuple[str, str]:
    """The heading and the samples of a family, each with these labels too."""
    family.samples = [
        sample._replace(labels={**sample.labels, **labels}) for sample in family.samples
    ]
    lines = [*StringIO(generate_latest(Only(family)).decode())]
    return "".join(lines[:HEADING_LINES]), "".join(lines[HEADING_LINES:])


def merge_families(processes: Iterable[Families]) -> str:
    """One text, as Prometheus wants it: each family once, with the samples of all processes."""
    together: dict[str, list[str]] = {}
    for process in processes:
        for name, (heading, samples) in process.items():
            together.setdefault(name, [heading]).append(samples)
    return "".join(part for parts in together.values() for part in parts)
