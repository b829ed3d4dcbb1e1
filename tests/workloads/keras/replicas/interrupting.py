"""Trainings that end where they are, after a checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from tfperf.train.trainer import Trainer


@contextmanager
def interrupt_at_save(number: int) -> Iterator[None]:
    """Expect that a training within is interrupted after its checkpoint of that number."""
    save, left = Trainer.save, [number]

    def save_and_stop(self):
        found = save(self)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return found

    with patch.object(Trainer, "save", save_and_stop), pytest.raises(KeyboardInterrupt):
        yield
