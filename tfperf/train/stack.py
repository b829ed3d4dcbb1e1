"""What the engine trains: a stack of replicas that share their computation, and what makes one for some of them.

R replicas. A workload derives its own from these; the engine needs to know nothing else of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

import keras
import tensorflow as tf

from tfperf.arrays import Float32Array, ReplicaIndices
from tfperf.train.flat import Flattener


class Losses(NamedTuple):
    """What one forward pass tells of each replica (R)."""

    objective: tf.Tensor  # what it minimises
    monitor: tf.Tensor  # its weights are the better, the lower this is
    gate: tf.Tensor  # true: its weights may count as the best ones, and it may stop
    misfit: tf.Tensor  # 1 stands for a good fit: a replica has diverged where this is stopping.BLOWN_UP times as much


class Stack(ABC):
    """R replicas on one device. All variables but scalars have the replicas first, and no replica depends on another.

    A program that was traced for one stack is used for others of the same digest and size whose attributes hold the
    same numbers, texts and NumPy arrays, with their own tensors and variables. Arrays that differ between stacks are
    better made tensors: then one program serves all. What breaks these rules is refused, see contract.py.
    """

    alike: ClassVar[Sequence[str]] = ()  # attributes whose NumPy arrays are equal in such stacks, or no program's
    mixes_types: ClassVar[bool] = False  # whether trained weights may be of other types than the losses

    replicas: int
    precision: str  # of the weights and losses, as float32
    epoch: int = 0  # steps after which `validate` tells the monitor; 0: the losses of each step do

    @abstractmethod
    def list_weights(self) -> dict[str, keras.Variable]:
        """Variables of the model (R, ...), by names that do not change between processes; the trainable are trained."""

    @abstractmethod
    def evaluate_losses(self, step: tf.Tensor, prepared: Any) -> Losses:
        """Of the weights as they are, before they have taken a step; prepared: what `prepare` gave.

        Nothing is assigned here: tensors stand in for the weights while gradients are taken, and assignments are lost.
        """

    @abstractmethod
    def evaluate_metrics(self, step: tf.Tensor) -> tuple[Losses, Mapping[str, tf.Tensor]]:
        """The losses, and what the history keeps of each replica (R), by the names that the factory gives."""

    def prepare(self) -> Any:
        """Tensors that do not depend on what is trained: made once for all steps of a call."""
        return None

    def feed(self, step: int, count: int) -> int:
        """Give the program what the host has for the next `count` steps; how many of them it can take then."""
        return count

    def validate(self, step: tf.Tensor) -> Losses:
        """Of the weights as they are, after each epoch; of a stack that has epochs. Its state may be assigned.

        Replicas whose weights are the best yet keep them, others may stop: what steps tell of monitor and gate is not
        looked at.
        """
        raise NotImplementedError

    def read_rows(self, before: int, step: int) -> Mapping[str, Float32Array]:
        """What the history keeps of the epochs (R, n) that ended after step `before`, up to `step`."""
        raise NotImplementedError

    def list_state(self) -> dict[str, tf.Variable]:
        """What `take_step` changes beside the weights: (R, ...), or scalars that all replicas share.

        Of the weights, trainable or not, the best are kept; of the state the last.
        """
        return {}

    def build_optimizer(self, row: keras.Variable, flat: Flattener) -> keras.optimizers.Optimizer | None:
        """One for the trained numbers of all replicas side by side (R, P); None: the settings say which.

        flat: cuts a row into the trained weights.
        """
        return None

    def make_probes(self) -> Sequence[tf.Tensor]:
        """What the next losses are differentiated by, too; the gradients become `probed` of its optimizer."""
        return ()

    def list_buffers(self) -> Sequence[tf.Variable]:
        """What its programs assign for the host to read after each call: no checkpoint has it."""
        return ()

    def take_step(self, step: tf.Tensor, prepared: Any) -> Losses:
        """A step of the stack's own, which updates its weights and state; the losses are of the weights before it.

        Offered by being there; without it the engine takes gradients of the objective, and the optimizer's step. What
        the step does to replicas that have stopped is undone.
        """
        raise NotImplementedError

    @property
    def has_own_step(self) -> bool:
        """Whether the stack has a step of its own."""
        return type(self).take_step is not Stack.take_step


class StackFactory(Protocol):
    """A training of R replicas: what makes the stack of some of them."""

    @property
    def replicas(self) -> int:
        """How many there are."""

    @property
    def metrics(self) -> Sequence[str]:
        """Names of what the history keeps of each replica."""

    @property
    def progress_metric(self) -> str:
        """The one of them that is shown while they train."""

    def build(self, indices: ReplicaIndices, form: Any) -> Stack:
        """The stack of those replicas, on the device of the calling thread."""

    def initialize(self, stack: Any, indices: ReplicaIndices) -> None:
        """Give a stack of those replicas the weights that they begin with, each as if it were alone."""

    def digest(self, form: Any) -> str:
        """The same for all trainings that compute the same with a form, here and in other processes: sha256 in hex."""
