"""Stored elements as a tf.data.Dataset; everything is done by TensorFlow's own operations, nothing in Python.

From the first to the last: FixedLengthRecordDataset at the place of the records in the file. By number: the file is
mapped into memory and a row is gathered. FixedLengthRecordDataset reads all bytes before a record to get there.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfperf.stores.layout import Component, RecordLayout
from tfperf.stores.opening import ElementStore

READ_BYTES = 2**20  # at once, from the first to the last


def read_in_order(store: ElementStore) -> tf.data.Dataset:
    """All elements, as they are stored; each a tuple of its components."""
    plan, layout = store.plan, store.plan.layout
    after = store.elements_file.stat().st_size - plan.offset - plan.elements * layout.record_bytes
    records = tf.data.FixedLengthRecordDataset(
        str(store.elements_file), layout.record_bytes, plan.offset, after, buffer_size=READ_BYTES
    )
    elements = records.map(lambda record: split_record(tf.io.decode_raw(record, tf.uint8), layout), name="read_store")
    return elements.apply(tf.data.experimental.assert_cardinality(store.plan.elements))


def read_numbers(store: ElementStore, numbers: tf.data.Dataset) -> tf.data.Dataset:
    """The elements of these numbers (), int64."""
    layout = store.plan.layout
    return numbers.map(lambda number: split_record(gather_records(store, number), layout), name="read_store")


def read_chunks(store: ElementStore, chunk: int, seed: int | None) -> tf.data.Dataset:
    """All elements: chunks of neighbours in a random order, read at once, and shuffled with those read before.

    chunk: elements. The order is another one in each pass.
    """
    elements, layout = store.plan.elements, store.plan.layout
    firsts = tf.data.Dataset.range(0, elements, chunk).shuffle(-(-elements // chunk), seed=seed)

    def read(first: Any) -> tf.data.Dataset:
        rows = gather_records(store, tf.range(first, tf.minimum(first + chunk, elements)))
        return tf.data.Dataset.from_tensor_slices(rows)

    records = firsts.interleave(read, cycle_length=1, num_parallel_calls=1).shuffle(2 * chunk, seed=seed)
    mixed = records.map(lambda record: split_record(record, layout), name="read_store")
    return mixed.apply(tf.data.experimental.assert_cardinality(elements))


def gather_records(store: ElementStore, numbers: Any) -> tf.Tensor:
    """Bytes of records: (record_bytes) of one number, (n, record_bytes) of several; uint8.

    The header is as long as some records, so that the file is one array of them. Rows are copied: nothing later
    writes to the mapped file.
    """
    plan, size = store.plan, store.plan.layout.record_bytes
    before = plan.offset // size
    # the file is mapped when the operation runs: a graph holds its path alone
    file = tf.raw_ops.ImmutableConst(
        dtype=tf.uint8, shape=[before + plan.elements, size], memory_region_name=str(store.elements_file)
    )
    return tf.gather(file, numbers + before)


def split_record(record: tf.Tensor, layout: RecordLayout) -> tuple[tf.Tensor, ...]:
    """The components of an element; record: its bytes (record_bytes), uint8."""
    record = tf.ensure_shape(record, (layout.record_bytes,))
    parts: Sequence[tf.Tensor] = tf.split(record, [one.bytes for one in layout.components])
    return tuple(_decode(part, one) for part, one in zip(parts, layout.components, strict=True))


def _decode(part: tf.Tensor, component: Component) -> tf.Tensor:
    dtype = tf.as_dtype(component.dtype)
    if dtype == tf.bool:
        return tf.cast(tf.reshape(part, component.shape), tf.bool)
    if component.item_bytes == 1:
        return tf.bitcast(tf.reshape(part, component.shape), dtype)
    return tf.bitcast(tf.reshape(part, (*component.shape, component.item_bytes)), dtype)
