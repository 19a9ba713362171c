"""Work on texts from outside that may take long: in a process of its own, with limits.

Each kind of work has places of its own, so that no kind waits for another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from libs.bus.fair_semaphore import NoPlace
from libs.work.limited_processes import LimitedProcesses, LimitReached
from services.api.http.callers import org_of
from services.api.http.error_responses import Problem
from services.api.http.per_path_concurrency_limits import no_place
from services.api.http.request_admission import unless_hung_up
from services.api.http.request_parsing import AnyRequest

WAITING_MAX = 32  # of an organisation, for a place of one kind of work
WAITING_SECONDS_MAX = 50.0  # less than SDKs wait for an answer
# What is this short takes less than a process costs.
SHORT_CHARS_MAX = 1024
SHORT_SHOWN_CHARS_MAX = 64 << 10  # JSON that is read, counted and written again: 1 ms
SHORT_COMPARED_CHARS_MAX = 512  # lines are compared with lines: eight times the work for two times


class TextWork:
    """One kind of work. `what` is what it is about, as clients call it; texts of no more than
    `short_chars_max` together are looked at on the event loop."""

    def __init__(self, what: str, *modules: str, short_chars_max: int = SHORT_CHARS_MAX) -> None:
        self.what = what
        self.short_chars_max = short_chars_max
        self.processes = LimitedProcesses(
            *modules,
            of_organisation_waiting_max=WAITING_MAX,
            waiting_seconds_max=WAITING_SECONDS_MAX,
        )

    async def run[T](
        self, request: AnyRequest, chars: int, function: Callable[..., T], *arguments: Any
    ) -> T:
        """The result or the exception of a function of texts with so many characters together.
        Raises the 422 where they take too long or too much memory, the 503 where too many wait, and
        the 499 where the client is gone."""
        if chars <= self.short_chars_max:
            return function(*arguments)
        working = self.processes.run(function, *arguments, org=org_of(request))
        try:
            return await unless_hung_up(request, working)
        except LimitReached as reached:
            detail = f"{self.what} cannot be looked at: {reached}: send less, or simpler text"
            raise Problem(422, {"detail": detail}) from None
        except NoPlace as none:
            raise no_place(none) from None


@dataclass(frozen=True, slots=True)
class TextWorks:
    """The kinds of work on texts that requests ask for."""

    checks: TextWork = field(
        default_factory=lambda: TextWork("The file", "libs.agent_toml.checked_texts")
    )
    comparisons: TextWork = field(
        default_factory=lambda: TextWork(
            "The difference",
            "services.api.v1.agent_comparison",
            short_chars_max=SHORT_COMPARED_CHARS_MAX,
        )
    )
    agent_files: TextWork = field(
        default_factory=lambda: TextWork("`agent_file`", "services.api.v1.template_files")
    )
    context_windows: TextWork = field(
        default_factory=lambda: TextWork(
            "The context window",
            "services.api.v1.context_window",
            short_chars_max=SHORT_SHOWN_CHARS_MAX,
        )
    )

    def close(self) -> None:
        """End the processes of each kind of work."""
        for work in (self.checks, self.comparisons, self.agent_files, self.context_windows):
            work.processes.close()
