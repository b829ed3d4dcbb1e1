"""The step of replicas, traced alone for any number of them: R replicas in one stack."""

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import tensorflow as tf

from tfperf.errors import CardError
from tfperf.train.blueprints import list_tensors
from tfperf.train.loop import Loop
from tfperf.workloads.pdf.memory import ReplicaMemoryTrial
from tfperf.workloads.step_tracer import MOST, ScaledStep, ScaledSteps, TracedStep

MOST_COMPILED = 256  # replicas, whose constants have to be made: XLA compiles for a number of its own each time
# replicas of the stacks that are traced: of at most 128, TensorFlow writes what has a byte each into the graph
SIZES = 131, 135


class ReplicaStepTracer(ReplicaMemoryTrial):
    """Traces the steps of two small stacks, from which those of any other follow; what XLA compiles, as it is asked.

    Constants of a thousand replicas take minutes to make, and more memory than there may be: for a machine that is not
    here shapes have to do.
    """

    _steps: ScaledSteps | None = None

    @property
    def most(self) -> int:
        """Replicas of the largest stack."""
        return MOST_COMPILED if self._xla else MOST

    def list_variants(self) -> Mapping[str, str]:
        """None: precision, form and network are the fit's own."""
        return {}

    def trace_step(self, batch: int, variant: str = "") -> TracedStep | ScaledStep:
        """Raises: CardError for a card with several stacks, whose steps overlap."""
        if self._cores.stacks > 1:
            raise CardError(
                f"engine.stacks: got {self._cores.stacks}; the step of one stack is traced; allowed: 1, auto"
            )
        if not hasattr(self, "_inputs"):
            self.read_data()
        if self._xla:
            return self._trace(batch)
        if self._steps is None:
            self._steps = ScaledSteps(SIZES, self._trace)
        return self._steps.scale(batch)

    def _trace(self, replicas: int) -> TracedStep:
        self.set_batch(replicas)
        assert self._ensemble is not None
        (loop,) = self._ensemble.build_loops()
        concrete, optimizer = loop.trace_step(), loop.optimizer
        kept = [(*shape, kind.size) for tensor, (kind, shape) in _list_kept(loop)]
        captured = {id(one) for one, _ in concrete.graph.captures}
        held = [(*shape, kind.size) for tensor, (kind, shape) in _list_kept(loop) if id(tensor) not in captured]
        return TracedStep(
            concrete=concrete, held=held, kind="replicas", fixed=sum(map(prod, kept)),
            function=tf.function(loop.take_single_step, autograph=False, jit_compile=True) if self._xla else None,
            slots=() if optimizer is None else [str(one.value.name).partition(":")[0] for one in optimizer.variables],
            optimizer="tfperf.update",
        )  # fmt: skip


def _list_kept(loop: Loop) -> Iterator[tuple[Any, Any]]:
    """All that a loop keeps from step to step, each tensor once: constants of the losses, variables."""
    for _, tensor, kind in list_tensors({key: one for key, one in vars(loop).items() if key != "_compiled"}):
        yield tensor, kind
