"""The step of a translator, or a greedy translation, traced alone for any number of pairs of any padded length."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfperf.errors import CardError
from tfperf.workloads.step_tracer import MOST, SHORTER, TracedStep, choose_shorter, describe_shorter
from tfperf.workloads.translate.batch_translator import list_weight_shapes
from tfperf.workloads.translate.batches import ADDED
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.memory import TranslationMemoryTrial


class TranslationStepTracer(TranslationMemoryTrial):
    """Of one device. Built once: a step of other pairs is traced with the same variables."""

    most = MOST

    def __init__(self, card: TranslationCard, mode: str) -> None:
        """mode: train or predict. Raises: CardError for a card whose step is not traced alone."""
        if card.engine.xla:
            raise CardError(
                "engine.xla: got true; XLA compiles a part of the step, and the rest has no part in what it tells; "
                "allowed: false"
            )
        if mode == "train" and card.placement.engine != "tower":
            raise CardError(
                f"placement.engine: got {card.placement.engine!r}; its step is not traced alone; allowed: tower"
            )
        super().__init__(card, mode)
        self._lengths: Sequence[int] | None = None  # None: nothing is read yet

    def list_variants(self) -> Mapping[str, str]:
        """Shorter sentences, where lengths vary."""
        lengths = self._build()
        return {} if choose_shorter(lengths) is None else {SHORTER: describe_shorter(lengths, "pieces")}

    def trace_step(self, batch: int, variant: str = "") -> TracedStep:
        """Of the longest padded length, or with the change of the typical one."""
        lengths = self._build()
        shorter = choose_shorter(lengths) if variant == SHORTER else None
        length = shorter or self._longest
        return self._trace_translation(batch, length) if self._mode == "predict" else self._trace(batch, length)

    def _build(self) -> Sequence[int]:
        if self._lengths is None:
            self.read_data()
            self.build_model()
            if self._mode == "train":
                self.make_slots()
            self._lengths = self.list_lengths()
        return self._lengths

    def _trace(self, batch: int, length: int) -> TracedStep:
        engine: Any = self._engine  # of towers: others have no step that is traced alone
        pair = [tf.TensorSpec([batch, columns], tf.int32) for columns in (length, length + ADDED)]

        def take(source: tf.Tensor, target: tf.Tensor, labels: tf.Tensor) -> Any:
            return engine.take_step([(source, target)], labels)

        concrete = tf.function(take, autograph=False).get_concrete_function(*pair, tf.TensorSpec([], tf.float32))
        slots = [str(one.value.name).partition(":")[0] for one in engine.optimizer.variables]
        return TracedStep(
            concrete=concrete, kind="encoder-decoder", held=[*self._list_texts(), *map(_describe, pair)],
            slots=slots, optimizer="tfperf.update",
        )  # fmt: skip

    def _trace_translation(self, batch: int, length: int) -> TracedStep:
        source, weights = tf.TensorSpec([batch, length], tf.int32), list_weight_shapes(self._model)
        # the weights are values of the variables, which hold the same memory
        function = tf.function(lambda given, ids: self._translator.trace(given, ids), autograph=False)
        concrete = function.get_concrete_function(weights, source)
        return TracedStep(concrete=concrete, kind="encoder-decoder", held=self._list_texts())

    def _list_texts(self) -> list[tuple[int, ...]]:
        """The pairs that batches are gathered from: with the host as device they are in its memory."""
        sides = (self._split.source, self._split.target)
        return [(len(part), part.itemsize) for side in sides for part in (side.flat, side.offsets)]


def _describe(spec: tf.TensorSpec) -> tuple[int, ...]:
    """Shape and bytes of an element of the next batch, which is there beside that of the step."""
    return (*spec.shape, spec.dtype.size)
