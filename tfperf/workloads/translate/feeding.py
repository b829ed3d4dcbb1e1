"""Batches of sentence pairs for the devices, as a tf.data pipeline."""

import tensorflow as tf

from tfperf.arrays import Int64Array
from tfperf.data.keys import Purpose, make_generator
from tfperf.errors import UserError
from tfperf.workloads.translate.batches import ADDED, FILLING, BatchPlan, count_steps, plan_batches, split_plan
from tfperf.workloads.translate.card import TranslationCard
from tfperf.workloads.translate.corpus import Split
from tfperf.workloads.translate.vocabulary import END, PAD, START

HOST = "CPU:0"
LAST_EPOCH = 2**32 - 1  # that has an order of its own


def plan_training(card: TranslationCard, split: Split, devices: int, epoch: int) -> BatchPlan:
    """The batches of one epoch (0: the first), whose order the card's seed and the epoch decide.

    Raises: PackError where there are too few pairs, UserError where so many devices cannot share the card's batches.
    """
    data, lengths = card.data, (split.source.lengths, split.target.lengths)
    count_epoch_steps(card, split, devices)
    seed = int(make_generator(card.seed, epoch, Purpose.SPLIT).integers(2**63)) if data.shuffle else None
    whole = plan_batches(
        *lengths, devices=data.count_batch_devices(devices), batch=data.known_batch, buckets=data.buckets,
        width=data.bucket_width, order_seed=seed, drop=True,
    )  # fmt: skip
    return whole if data.scaling is None else split_plan(whole, *lengths, devices, data.compute_batch(devices))


def count_epoch_steps(card: TranslationCard, split: Split, devices: int) -> int:
    """Steps of one epoch of the training. Raises: as plan_training."""
    if faults := list(card.data.check_devices(devices)):
        raise UserError(*(f"data.{fault.key}: got {fault.value!r}; {fault.text}" for fault in faults))
    return count_steps(len(split), card.data.count_batch_devices(devices), card.data.known_batch)


def compute_max_columns(card: TranslationCard) -> tuple[int, int]:
    """Columns of source and target that no batch of a training exceeds."""
    width, longest = card.data.bucket_width, card.fixed_length or card.data.max_length
    limit = -(-longest // width) * width
    return limit, limit + ADDED


def plan_held_out(card: TranslationCard, split: Split, devices: int) -> BatchPlan:
    """Batches with each pair of a split once, for validation and test: all devices have the same lengths."""
    both = split.source.lengths, split.target.lengths
    width, batch = card.data.bucket_width, card.data.known_batch
    return plan_batches(*both, devices=devices, batch=batch, buckets="shared", width=width, order_seed=None, drop=False)


def build_dataset(split: Split, plan: BatchPlan, first: int = 0) -> tf.data.Dataset:
    """The batches of a plan from step `first` on.

    An element is (tuple over N devices of (source (b, S_d), target (b, T_d)), tokens): ids int32, and the number of
    labels target[:, 1:] that are not PAD over all devices, float32, at least 1. A source is its pieces, a target START,
    its pieces and END; PAD follows. A filling row is END as source, and PAD alone as target: it has no labels.
    """
    with tf.device(HOST):
        steps = tf.data.Dataset.from_tensor_slices((plan.rows[first:], plan.lengths[first:]))
    return _gather_batches(split, steps)


def build_training_dataset(card: TranslationCard, split: Split, devices: int, first_step: int = 0) -> tf.data.Dataset:
    """The training's batches, epoch after epoch without end, from step `first_step` (0: the first) of all on.

    Elements as of `build_dataset`, of the plans that `plan_training` makes, each when its epoch begins.
    Raises: PackError where there are too few pairs for a step.
    """
    steps = count_epoch_steps(card, split, devices)
    start, skipped = divmod(first_step, steps)

    def planned(epoch: int) -> tuple[Int64Array, Int64Array]:
        one = plan_training(card, split, devices, int(epoch))
        return one.rows, one.lengths

    def of_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
        rows, lengths = tf.numpy_function(planned, [epoch], (tf.int64, tf.int64))
        rows.set_shape((steps, devices, card.data.compute_batch(devices)))
        lengths.set_shape((steps, devices, 2))
        done = tf.where(epoch == start, tf.constant(skipped, tf.int64), 0)
        return tf.data.Dataset.from_tensor_slices((rows, lengths)).skip(done)

    with tf.device(HOST):
        every = tf.data.Dataset.range(start, LAST_EPOCH + 1).flat_map(of_epoch)
    return _gather_batches(split, every)


def _gather_batches(split: Split, steps: tf.data.Dataset) -> tf.data.Dataset:
    """From rows (N, b) and lengths (N, 2) of each step to its batches."""
    with tf.device(HOST):
        texts = [(tf.constant(side.flat), tf.constant(side.offsets)) for side in (split.source, split.target)]

    def batches(rows: tf.Tensor, lengths: tf.Tensor) -> tuple[tuple[tuple[tf.Tensor, tf.Tensor], ...], tf.Tensor]:
        pairs = tuple(_gather_batch(texts, rows[d], lengths[d]) for d in range(rows.shape[0]))
        labels = [tf.math.count_nonzero(target[:, 1:] != PAD, dtype=tf.float32) for _, target in pairs]
        return pairs, tf.maximum(tf.add_n(labels), 1.0)

    return steps.map(batches, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)


def _gather_batch(
    texts: list[tuple[tf.Tensor, tf.Tensor]], rows: tf.Tensor, lengths: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Source (b, S) and target (b, T) of the pairs `rows` (b), with lengths S, T (2)."""
    real = rows != FILLING
    source = _pad(*texts[0], rows, lengths[0], ended=~real)
    target = _pad(*texts[1], rows, lengths[1] - 1, ended=real)
    first = tf.where(real, START, PAD)[:, None]
    return source, tf.concat([first, target], axis=1)


def _pad(flat: tf.Tensor, offsets: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, ended: tf.Tensor) -> tf.Tensor:
    """The pieces of `rows` (b), as (b, columns) int32: END behind those that are `ended` (b), PAD behind all.

    A filling row has no pieces.
    """
    start, stop = (tf.gather(offsets, tf.maximum(rows, 0) + k)[:, None] for k in (0, 1))
    length = tf.where(rows[:, None] == FILLING, tf.constant(0, tf.int64), stop - start)
    column = tf.range(columns)[None, :]
    pieces = tf.gather(flat, tf.minimum(start + column, tf.size(flat, tf.int64) - 1))
    behind = tf.where(ended[:, None] & (column == length), END, PAD)
    return tf.where(column < length, pieces, behind)
