"""Limits of models that servers named in errors: no process learns one twice."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from libs.bus.ports import Clock

# Names of models come from clients.
MODELS_KEPT_MAX = 1_000
# Errors may be misread: a smaller window is none, and a window is forgotten in time.
WINDOW_MIN = 1_024
WINDOW_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Learned:
    """The parameters that a model does not take, and how many tokens it may be shown."""

    omitted: frozenset[str] = frozenset()
    window: int | None = None
    window_until: float = float("-inf")


class LearnedModels:
    """The learned limits of one provider's models, by their names."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.models: OrderedDict[str, Learned] = OrderedDict()

    def omitted_parameters(self, model: str) -> frozenset[str]:
        """The parameters that a model does not take."""
        return self.models.get(model, NOTHING).omitted

    def window(self, model: str) -> int | None:
        """The size of a model's window in tokens, if a server named it within the last hour."""
        learned = self.models.get(model, NOTHING)
        return learned.window if self.clock.monotonic() < learned.window_until else None

    def omit(self, model: str, parameters: frozenset[str]) -> None:
        """A model answered without these parameters."""
        if not parameters <= self.omitted_parameters(model):
            known = self.models.get(model, NOTHING)
            self.keep(model, replace(known, omitted=known.omitted | parameters))

    def limit(self, model: str, window: int | None, tokens_max: int) -> None:
        """The server of a model named its window, if it did, when it refused a request of at most
        so many tokens: one that fits into the window was refused for something else."""
        if window is not None and WINDOW_MIN <= window < tokens_max:
            until = self.clock.monotonic() + WINDOW_SECONDS
            known = self.models.get(model, NOTHING)
            self.keep(model, replace(known, window=window, window_until=until))

    def keep(self, model: str, learned: Learned) -> None:
        """Keep this of a model, and forget the one that was learned first if there are too many."""
        self.models[model] = learned
        self.models.move_to_end(model)
        if len(self.models) > MODELS_KEPT_MAX:
            self.models.popitem(last=False)


NOTHING = Learned()
