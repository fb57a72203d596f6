"""A function that is called at regular steps."""

from collections.abc import Callable

from whvi.annotations import checked
from whvi.arguments import whole_number
from whvi.inference.callbacks.base import Callback, Moment


class Every(Callback):
    """Call a function with the ``Moment`` every so many steps; True ends the run.

    Args:
        steps: between two calls.
        function: it gets the ``Moment``.
    """

    @checked
    def __init__(self, steps: int, function: Callable[[Moment], bool | None]) -> None:
        self.steps, self.function = whole_number("steps", steps), function

    def on_step(self, moment: Moment) -> bool | None:
        """Call it every so many steps."""
        if moment.step % self.steps:
            return None
        moment.run.finish()
        return self.function(moment)
