"""Requests that schemathesis makes from the OpenAPI document: they fit it, or just do not."""

from __future__ import annotations

import time
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck
from schemathesis import GenerationMode

from tests.fuzz.connection import Answer
from tests.fuzz.corpus import NOT_ASKED
from tests.fuzz.fuzzer import GIVE_UP_SECONDS, SECONDS_MAX, Report
from tests.fuzz.mutations import Request


def fuzz_document(
    base_url: str,
    ids: dict[str, str],
    *,
    seed: int,
    examples: int,
    seconds_max: float = SECONDS_MAX,
) -> Report:
    """Ask so many requests of each kind for each operation, about things that exist."""
    document = schemathesis.openapi.from_url(f"{base_url}/openapi.json")
    report = Report(seconds_max)

    @document.hook
    def map_path_parameters(context: Any, path_parameters: Any) -> Any:
        """Half of the generated ids are nonsense already: let the others name something."""
        del context
        return {
            name: value if len(str(value)) % 2 else ids.get(name, value)
            for name, value in (path_parameters or {}).items()
        }

    for found in document.get_all_operations():
        operation = found.ok()
        if operation.definition.raw["operationId"].startswith(NOT_ASKED):
            continue
        for mode in modes(operation.definition.raw):
            ask = asking(base_url, operation, mode, report, name=f"{seed}-{operation.label}")
            bounded = hypothesis.settings(
                max_examples=examples,
                database=None,
                deadline=None,
                phases=[hypothesis.Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            hypothesis.seed(seed)(bounded(ask))()
    return report


def modes(operation: dict[str, Any]) -> list[GenerationMode]:
    """How requests of an operation are made. Where there is only a path, nothing can be wrong: the
    ids in it are any text, and Hypothesis would look for long."""
    parameters = [
        parameter for parameter in operation.get("parameters", ()) if parameter["in"] != "path"
    ]
    can_be_wrong = bool(parameters or operation.get("requestBody"))
    return [GenerationMode.POSITIVE, *([GenerationMode.NEGATIVE] if can_be_wrong else [])]


def asking(base_url: str, operation: Any, mode: Any, report: Report, *, name: str) -> Any:
    """A test that asks one request of an operation and notes the answer."""

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        request = Request(case.method, case.formatted_path, repr(case.body).encode())
        began = time.monotonic()
        try:
            response = case.call(base_url=base_url, timeout=GIVE_UP_SECONDS)
            answer = Answer(response.status_code, response.content)
        except OSError:
            answer = Answer(0, b"")
        report.note(name, request, answer, time.monotonic() - began)

    return ask
