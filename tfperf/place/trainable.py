"""What can be placed: a model given by its variables, the look-ups of a batch, its loss, and how all else merges.

A workload hands `build_engine` a function that builds one. Engines make every step from it: each device takes its local
batch, reads weights and statistics, looks rows up in the tables, and calls `compute`; what devices get is merged, and
the variables change where a placement says. Gradients of the sum of all losses over the count of the whole batch do not
depend on how many devices there are. Statistics do, where `compute` takes them of its batch: BatchNormalization's are
of each local batch, and their moving averages merge by mean.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import keras
import tensorflow as tf

from tfperf.place.merge_kinds import MergeKind, refuse_unmergeable
from tfperf.place.shapes import TensorType
from tfperf.place.transfers import Flops

LocalBatches = Sequence[Sequence[tf.Tensor]]  # of a global batch, one of each device


@dataclass(frozen=True)
class Statistic:
    """A variable that no gradient changes, as a moving average, and how the values that devices find merge.

    fixed: it is read alone, as the weights of a frozen layer; whatever value `compute` gives of it is left.
    Raises: UserError where the variable's type has no such merge.
    """

    variable: keras.Variable
    merge: MergeKind | Literal["fixed"]

    def __post_init__(self) -> None:
        refuse_unmergeable(f"statistic {self.variable.path}", self.merge, self.variable.dtype, "fixed")


@dataclass(frozen=True)
class Metric:
    """A small tensor that is told of every step, and how the values that devices find merge.

    Raises: UserError where the type is none, or has no such merge.
    """

    name: str
    merge: MergeKind
    dtype: str = "float32"

    def __post_init__(self) -> None:
        refuse_unmergeable(f"metric {self.name}", self.merge, self.dtype)


class PassInputs(NamedTuple):
    """What one device computes from.

    weights, statistics: values, in the trainable's order; rows: of each table those looked up, ids' shape + (U);
    local_batch: the device's; draws: of `sample_draws`; count (): of the whole batch, which divides the losses' sum.
    """

    weights: Sequence[tf.Tensor]
    rows: Sequence[tf.Tensor]
    statistics: Sequence[tf.Tensor]
    local_batch: Sequence[tf.Tensor]
    draws: Any
    count: tf.Tensor


class PassOutcome(NamedTuple):
    """Of a local batch: sum of its losses (), the statistics' new values, and its metrics, in the trainable's order."""

    loss: tf.Tensor
    statistics: Sequence[tf.Tensor] = ()
    metrics: Sequence[tf.Tensor] = ()


class BatchPosition(NamedTuple):
    """Where a local batch stands: number of the step, an integer scalar, and of its first example in the global one."""

    step: tf.Tensor
    first: int


class Trainable(ABC):
    """A model on any devices. Each variable has a path of its own, and is made when the trainable is built.

    An element of the training's batches is (local batches, count): of each device a tuple of tensors, examples first,
    as many on every device and in every step; and by what the sum of losses is divided: examples, labels, or their
    weights.
    """

    embeddings: Sequence[keras.Variable] = ()  # tables (V, U), read row by row
    most_look_ups: Sequence[int] = ()  # in each table, of an example at most
    weights: Sequence[keras.Variable]  # all others that gradients change
    statistics: Sequence[Statistic] = ()
    metrics: Sequence[Metric] = ()

    @abstractmethod
    def compute(self, given: PassInputs) -> PassOutcome:
        """Loss of a local batch, as a function of what it is given alone: devices, and XLA, know nothing else."""

    def select_ids(self, local_batch: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        """Ids, of any shape, of the rows that a local batch needs of each table."""
        return ()

    def survey(self, local_batches: LocalBatches) -> Sequence[tf.Tensor]:
        """What each device has to know of the whole batch, found on the host, as the longest example: small tensors."""
        return ()

    def sample_draws(
        self, position: BatchPosition, local_batch: Sequence[tf.Tensor], rows: Sequence[tf.Tensor],
        survey: Sequence[tf.Tensor],
    ) -> Any:  # fmt: skip
        """Random numbers of a local batch, or None; by example of the whole batch (`Draws`), whoever computes it.

        Made outside of what XLA compiles, whose streams have another order.
        """
        return None

    def count_flops(self, local_batch: Sequence[TensorType]) -> Flops | None:
        """FLOPs of the products of `compute` and its gradients, for a local batch of these shapes.

        None: they are read off the graph; a trainable with loops or functions in it has to state its own.
        """
        return None


Model = TypeVar("Model", bound=Trainable)
Builder = Callable[[], Model]
