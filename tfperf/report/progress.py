"""Progress of a training in words."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from tfperf.console.stages import Stages
from tfperf.report.numbers import number

if TYPE_CHECKING:  # which load TensorFlow
    from tfperf.train.trainer import Progress
    from tfperf.workloads.translate.trainer import TranslationProgress


class Status(Protocol):
    """How far a training is."""

    @property
    def step(self) -> int:
        """Steps taken."""

    @property
    def steps(self) -> int:
        """Steps to take at most."""

    @property
    def steps_per_second(self) -> float:
        """The speed of late."""

    @property
    def over(self) -> bool:
        """Whether no further step will be taken."""


S = TypeVar("S", bound=Status)
Show = Callable[[S], None]
Words = Callable[[S], str]


def replica_words(status: "Progress") -> str:
    """What a line says of replicas."""
    chi2 = status.chi2[np.isfinite(status.chi2)]
    low, middle, high = np.percentile(chi2, [16, 50, 84]) if len(chi2) else [np.nan] * 3
    return (
        f"{status.steps_per_second:.0f} steps/s, chi2/N {middle:.3f} [{low:.3f}, {high:.3f}], {status.running} running"
        + (f", {status.quarantined} quarantined" if status.quarantined else "")
    )


def translation_words(status: "TranslationProgress") -> str:
    """What a line says of a translation."""
    return (
        f"{status.steps_per_second:.1f} steps/s, {status.words_per_second:.0f} words/s, loss {status.loss:.3f}, "
        f"validation {number(status.validation_loss)}"
    )


def chunk_words(chunk: int, chunks: int) -> str:
    """Which of several chunks a line is about, to stand before it."""
    return f"chunk {chunk} of {chunks}, " if chunks > 1 else ""


def show_training(stages: Stages, words: Words[S], which: str = "") -> Show[S]:
    """A function to call with each status, of which `words` tells; `which` stands before."""

    def show(status: S) -> None:
        # at most: it may stop before
        seconds = None if status.over else (status.steps - status.step) / status.steps_per_second
        stages.step(status.step, status.steps, lambda: f"{which}{words(status)}", seconds)

    return show
