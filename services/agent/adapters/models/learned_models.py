"""What servers have said of their models in errors: it is not learned twice by the same process."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

# Names of models come from clients.
MODELS_KEPT_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Learned:
    """The parameters that a model does not take, and how many tokens it may be shown."""

    omitted: frozenset[str] = frozenset()
    window: int | None = None


class LearnedModels:
    """What is known of the models of one provider, by their names."""

    def __init__(self) -> None:
        self.models: OrderedDict[str, Learned] = OrderedDict()

    def omitted(self, model: str) -> frozenset[str]:
        """The parameters that a model does not take."""
        return self.models.get(model, NOTHING).omitted

    def window(self, model: str) -> int | None:
        """How many tokens a model may be shown."""
        return self.models.get(model, NOTHING).window

    def omit(self, model: str, parameters: frozenset[str]) -> None:
        """A model answered without these parameters."""
        if not parameters <= self.omitted(model):
            self.keep(model, Learned(self.omitted(model) | parameters, self.window(model)))

    def limit(self, model: str, window: int | None) -> None:
        """The server of a model named its window, if it did."""
        if window is not None:
            self.keep(model, Learned(self.omitted(model), window))

    def keep(self, model: str, learned: Learned) -> None:
        """Keep this of a model, and forget the one that was learned first if there are too many."""
        self.models[model] = learned
        self.models.move_to_end(model)
        if len(self.models) > MODELS_KEPT_MAX:
            self.models.popitem(last=False)


NOTHING = Learned()
