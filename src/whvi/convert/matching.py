"""A rule and its exceptions: which modules of a model are meant."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from torch import nn

from whvi.errors import ArgumentError, InputTypeError
from whvi.nn.together import named

Decide = Callable[[str, nn.Module], "bool | nn.Module | None"]
Words = type[nn.Module] | str | Iterable[type[nn.Module] | str]
"""Types and name patterns, one or several."""
Rule = None | Decide | Words
"""What chooses layers: nothing (all that gain by it), types, name patterns, or a function."""


class Selection:
    """What a rule and its exceptions say of each module.

    Args:
        rule, skip: as for ``bayesianize``.
    """

    def __init__(self, rule: Rule, skip: Words) -> None:
        self.function: Decide | None = None
        self.wanted: tuple[type[nn.Module] | str, ...] = (nn.Module,)
        if isinstance(rule, type | str):
            self.wanted = _words("rule", (rule,))
        elif callable(rule):
            self.function = rule
        elif rule is not None:
            self.wanted = _words("rule", rule)
        self.skip = _words("skip", (skip,) if isinstance(skip, str | type) else skip)
        self.by_size = self.function is None and not any(isinstance(word, str) for word in self.wanted)
        """Whether what gains nothing is left out: nobody asked for it by name."""

    def check_names(self, model: nn.Module) -> None:
        """Raise the error that says which name stands for nothing in the model, if any does."""
        names = [name for name, _ in model.named_modules(remove_duplicate=False)]
        for word in (*self.wanted, *self.skip):
            if isinstance(word, str) and not any(named(name, word) for name in names):
                raise ArgumentError(f"no module of this model is called {word!r}; see [n for n, _ in named_modules()]")

    def decide(self, name: str, module: nn.Module) -> tuple[str, nn.Module | None]:
        """Why a module is left as it is, "" where it is not; and the module that the rule gave for its place."""
        if any(_matches(name, module, word) for word in self.skip):
            return "skipped", None
        if self.function is None:
            wanted = any(_matches(name, module, word) for word in self.wanted)
            return "" if wanted else "not chosen by the rule", None
        answer = self.function(name, module)
        if isinstance(answer, nn.Module):
            return "", answer
        if answer is not None and not isinstance(answer, bool | np.bool_):
            raise InputTypeError(f"the rule must give a bool, a module or None, got {type(answer).__name__}")
        return "" if answer else "not chosen by the rule", None


def _words(name: str, words: Any) -> tuple[type[nn.Module] | str, ...]:
    checked: tuple[type[nn.Module] | str, ...] = tuple(words) if isinstance(words, Iterable) else (words,)
    for word in checked:
        if not isinstance(word, str) and not (isinstance(word, type) and issubclass(word, nn.Module)):
            raise InputTypeError(f"{name} takes names, patterns and types of modules, got {word!r}")
    return checked


def _matches(name: str, module: nn.Module, word: type[nn.Module] | str) -> bool:
    return named(name, word) if isinstance(word, str) else isinstance(module, word)
