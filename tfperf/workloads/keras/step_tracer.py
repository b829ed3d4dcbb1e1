"""The step of a Keras model, traced alone for any batch: as the card has it, and with changes that would shrink it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import keras
import tensorflow as tf

from tfperf.sources.samples import Nest, Samples
from tfperf.sources.user_errors import run_user_code
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.loops import MemoryLoop, flatten_step
from tfperf.workloads.keras.memory import KerasMemoryTrial
from tfperf.workloads.keras.models import make_model
from tfperf.workloads.keras.recompute import recompute_blocks
from tfperf.workloads.step_tracer import MOST, SHORTER, TracedStep, choose_shorter, describe_shorter

RECOMPUTE, BFLOAT16, ACCUMULATE, ROWS = "recompute", "mixed_bfloat16", "accumulate", "rows"
VARIANTS = {
    RECOMPUTE: "activations within blocks of layers computed again in the backward pass (tf.recompute_grad)",
    BFLOAT16: "layers compute in bfloat16 (mixed_bfloat16)",
    ACCUMULATE: "two batches of half the size before each update (train.accumulate)",
    ROWS: "of tables of embeddings only the rows of the batch updated",
}
MANY = 2  # batches over which gradients are summed


class KerasStepTracer(KerasMemoryTrial):
    """Builds the model anew for each change."""

    most = MOST

    def __init__(self, card: KerasCard, mode: str) -> None:
        """mode: train or predict."""
        super().__init__(card, mode)
        self._whole_card = card
        self._variant = ""
        self._built: str | None = None

    def list_variants(self) -> Mapping[str, str]:
        """Those that may matter to such a model."""
        self._build("")
        if self._mode == "predict":
            return {BFLOAT16: VARIANTS[BFLOAT16], **self._list_lengths()}
        has_tables = any(isinstance(layer, keras.layers.Embedding) for layer in self._model._flatten_layers())
        left_out = {ROWS} if not has_tables else set()
        left_out |= {ACCUMULATE} if self._whole_card.train.accumulate else set()
        return {name: text for name, text in VARIANTS.items() if name not in left_out} | self._list_lengths()

    def _list_lengths(self) -> dict[str, str]:
        """The variant with shorter batches, where a stream pads them differently."""
        lengths = self.list_lengths()
        return {} if choose_shorter(lengths) is None else {SHORTER: describe_shorter(lengths, "places")}

    def trace_step(self, batch: int, variant: str = "") -> TracedStep:
        """Raises: UserError for faults of the user's code."""
        self._build("" if variant == SHORTER else variant)
        shorter = choose_shorter(self.list_lengths()) if variant == SHORTER else None
        samples = max(1, batch // MANY) if variant == ACCUMULATE else batch
        traced: TracedStep = run_user_code(lambda: self._trace(samples, shorter), "model: traced", None)
        return traced

    def _build(self, variant: str) -> None:
        if not hasattr(self, "_data"):
            self.read_data()
        if self._built == variant:
            return
        self._card = self._whole_card
        if variant == ACCUMULATE:
            self._card = replace(self._card, train=replace(self._card.train, accumulate=MANY))
        self._variant = variant
        self.build_model()
        if self._mode == "train":
            self.make_slots()
        if variant == ROWS:
            _update_rows(self._model.optimizer)
        if variant == RECOMPUTE:
            recompute_blocks(self._model)
        self._built = variant

    def _make_model(self) -> keras.Model:
        return make_model(self._card, _use_bfloat16() if self._variant == BFLOAT16 else None, self._mode == "predict")

    def _trace(self, batch: int, length: int | None) -> TracedStep:
        """length: to which samples are padded where that differs; None: the longest."""
        data, model = self._data.training, self._model
        first = self._padded[length or max(self._padded)] if self._padded else self._read_batch(data)
        specs = keras.tree.map_structure(lambda one: _make_spec(one, batch), first)
        if self._mode == "predict":
            return self._trace_alone(model.predict_step, specs)
        if not isinstance(data, Samples):
            return self._trace_alone(flatten_step(model.train_step), specs, keras.tree.flatten(specs))
        loop = MemoryLoop(model.train_step, self._tensors[id(data)], batch, self._compilation)
        if self._compilation == "XLA step":
            return self._trace_alone(flatten_step(model.train_step), specs)
        return self._finish(loop.trace_step(batch), loop.make_function(batch), [tf.TensorSpec([1, batch], tf.int64)])

    def _trace_alone(self, step: Any, specs: Nest, beside: Any = ()) -> TracedStep:
        """A step of a batch that is there. beside: more tensors that are, as of the next batch."""
        flat, compiled = keras.tree.flatten(specs), self._compilation != "graph"
        function = tf.function(
            lambda *given: step(keras.tree.pack_sequence_as(specs, given)), autograph=False, jit_compile=compiled
        )
        return self._finish(function.get_concrete_function(*flat), function, flat, beside)

    def _finish(self, concrete: Any, function: Any, specs: Sequence[Any], beside: Any = ()) -> TracedStep:
        model, captured = self._model, {id(outer) for outer, _ in concrete.graph.captures}
        optimizer = getattr(model, "optimizer", None) if self._mode == "train" else None
        samples = [one for part in self._tensors.values() for one in keras.tree.flatten(part)]
        held = [(*one.shape, one.dtype.size) for one in beside]
        held += [(*one.shape, one.dtype.size) for one in samples if id(one) not in captured]
        slots = () if optimizer is None else [_get_name(one) for one in optimizer.variables]
        values = [*model.variables, *(() if optimizer is None else optimizer.variables)]
        fixed = sum(_count_bytes(one.value) for one in values) + sum(map(_count_bytes, samples))
        return TracedStep(
            concrete=concrete, function=None if self._compilation == "graph" else function,
            specs=specs, held=held, slots=slots, fixed=fixed,
            optimizer="" if optimizer is None else optimizer.name,
        )  # fmt: skip


def _make_spec(tensor: tf.Tensor, batch: int) -> tf.TensorSpec:
    return tf.TensorSpec([batch, *tensor.shape[1:]], tensor.dtype)


def _get_name(variable: keras.Variable) -> str:
    return str(variable.value.name).partition(":")[0]


def _count_bytes(tensor: Any) -> int:
    return int(tensor.shape.num_elements() or 0) * int(tensor.dtype.size)


@contextmanager
def _use_bfloat16() -> Iterator[None]:
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _update_rows(optimizer: Any) -> None:
    """Let it subtract the gradients of rows in place, without tensors of a whole table."""
    apply = optimizer.apply

    def apply_rows(gradients: Any, variables: Any = None) -> Any:
        dense = []
        for gradient, variable in zip(gradients, variables or optimizer._trainable_variables, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.value.scatter_sub(gradient)
            else:
                dense.append((gradient, variable))
        return apply(*map(list, zip(*dense, strict=True)))

    optimizer.apply = apply_rows
