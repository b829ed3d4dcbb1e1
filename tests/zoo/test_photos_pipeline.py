"""Pictures as batches: the same bits however the pipeline is written, each step beside a plain one in float64."""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfperf.sources.dataset_graph import DatasetGraph
from tfperf.zoo import photos_pipeline
from tfperf.zoo.photos import add_block, build_model, load_photos
from tfperf.zoo.photos_folder import list_photos
from tfperf.zoo.photos_pipeline import DRAWS, PipelineForm, change_picture, make_pipeline
from tfperf.zoo.photos_waiting import StartTimes

SIZE = 24


def load(folder, part="train", **form):
    return load_photos(folder, part, size=SIZE, batch=8, **form)


def collect(dataset, passes=1):
    found = [(x.numpy(), y.numpy()) for _ in range(passes) for x, y in dataset]
    return np.concatenate([x for x, _ in found]), np.concatenate([y for _, y in found])


def test_batches_are_pictures_and_classes(folder):
    dataset = load(folder)
    assert dataset.element_spec == (tf.TensorSpec((None, SIZE, SIZE, 3)), tf.TensorSpec((None,), tf.int32))
    assert [len(y) for _, y in dataset] == [8, 8, 8, 2] and int(dataset.cardinality()) == 4
    x, y = collect(dataset)
    assert x.min() >= 0 and x.max() <= 1 and np.ptp(x, axis=(1, 2, 3)).min() > 0.02
    assert sorted(y) == list_photos(Path(folder), "train")[1]


@pytest.mark.parametrize(
    "form",
    [
        {"parallel_calls": 3, "prefetch": 2}, {"parallel_calls": -1, "prefetch": -1, "threads": 3},
        {"fused": True}, {"batch_first": True}, {"fused": True, "batch_first": True, "parallel_calls": 2},
    ],
)  # fmt: skip
@pytest.mark.parametrize("fancy", [True, False])
def test_every_form_gives_the_same_bits_in_the_same_order(folder, form, fancy):
    wanted = collect(load(folder, fancy_upscaling=fancy), passes=2)
    for one, other in zip(collect(load(folder, fancy_upscaling=fancy, **form), passes=2), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_changes_values_changes_them_as_little_as_is_said(folder):
    fine, coarse = collect(load(folder)), collect(load(folder, fancy_upscaling=False))
    assert np.any(fine[0] != coarse[0])
    fast = collect(load(folder, dct_method="INTEGER_FAST"))
    assert np.abs(fast[0] - fine[0]).max() < 0.05
    loose = collect(load(folder, ordered=False, parallel_calls=4))
    assert sorted(loose[1]) == sorted(fine[1])


def test_passes_differ_and_can_be_had_again(folder):
    x, y = collect(load(folder), passes=2)
    again, other = collect(load(folder), passes=2), collect(load(folder, seed=2))
    np.testing.assert_array_equal(again[0], x)
    count = len(y) // 2
    assert np.any(y[:count] != y[count:]) and np.any(other[1] != y[:count])
    assert len(np.unique(x.reshape(len(x), -1), axis=0)) == len(x), "no picture comes twice in the same way"
    path = list_photos(Path(folder), "train")[0][0]
    same = collect(make_pipeline([path] * 4, [0] * 4, SIZE, 2, 1, None, PipelineForm()), passes=2)[0]
    assert len(np.unique(same.reshape(8, -1), axis=0)) == 8, "a pass has draws of its own"
    graph = DatasetGraph(load(folder))
    assert graph.has_history and not graph.list_unkept()
    assert "deterministic=False" in DatasetGraph(load(folder, ordered=False)).list_unkept()[0]


def scale_bilinearly(picture, size):
    """Each pixel between the four that its centre lies among; pixels beyond the border are those at it."""
    found = np.asarray(picture, np.float64)
    for axis in (0, 1):
        count = found.shape[axis]
        place = np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, count - 1)
        low = np.floor(place).astype(int)
        part = (place - low).reshape([-1 if one == axis else 1 for one in range(3)])
        found = found.take(low, axis) * (1 - part) + found.take(np.minimum(low + 1, count - 1), axis) * part
    return found


def test_pictures_that_are_held_out_are_their_middle(folder):
    x, y = collect(load(folder, "held"))
    paths, labels = list_photos(Path(folder), "held")
    np.testing.assert_array_equal(y, labels)
    for found, path in zip(x, paths, strict=True):
        whole = tf.io.decode_jpeg(tf.io.read_file(path)).numpy()
        height, width = whole.shape[:2]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        wanted = scale_bilinearly(whole[top : top + side, left : left + side], SIZE) / 255
        # places of up to `side` pixels, rounded twice, between neighbours that differ by 1 at most; then some products
        np.testing.assert_allclose(found, wanted, rtol=0, atol=(2 * side + 16) * 2.0**-24)
    np.testing.assert_array_equal(collect(load(folder, "held", fused=True, fancy_upscaling=False))[1], y)


def test_windows_have_the_area_and_the_shape_that_are_drawn():
    random, areas, aspects = np.random.default_rng(1), [], []
    for _ in range(200):
        height, width = (int(side) for side in random.integers(400, 641, 2))
        draws = random.random(DRAWS, np.float32)
        window = photos_pipeline._find_window(tf.constant((height, width, 3)), tf.constant(draws))
        top, left, tall, wide = (int(one) for one in window)
        assert 0 <= top <= top + tall <= height and 0 <= left <= left + wide <= width
        area, aspect = (0.3 + 0.7 * draws[0]) * height * width, (4 / 3) ** (2 * draws[1] - 1)
        wanted = np.sqrt(area / aspect), np.sqrt(area * aspect)
        assert (tall, wide) == pytest.approx(np.minimum(wanted, (height, width)), abs=0.51)
        assert (top, left) == pytest.approx(draws[2:4] * (height - tall, width - wide), abs=1)
        areas.append(tall * wide / height / width)
        aspects.append(wide / tall)
    assert min(areas) < 0.35 and max(areas) > 0.9 and min(aspects) < 0.8 and max(aspects) > 1.25


def test_colours_are_changed_as_in_float64():
    random = np.random.default_rng(1)
    x, draws = random.random((20, 7, 5, 3), np.float32), random.random((20, DRAWS), np.float32)
    found = change_picture(tf.constant(x), tf.constant(draws)).numpy()
    mirrored = 0
    for picture, drawn, result in zip(x.astype(np.float64), draws.astype(np.float64), found, strict=True):
        mirrored += drawn[4] >= 0.5
        picture = picture[:, ::-1] if drawn[4] >= 0.5 else picture
        grey = (picture @ (0.299, 0.587, 0.114))[..., None]
        picture = grey + (picture - grey) * (0.6 + 0.8 * drawn[7])
        picture = 0.5 + (picture - 0.5) * (0.7 + 0.6 * drawn[6]) + 0.4 * drawn[5] - 0.2
        # ten operations on numbers up to 2
        np.testing.assert_allclose(result, np.clip(picture, 0, 1), rtol=0, atol=20 * 2.0**-23)
    assert 0 < mirrored < 20
    np.testing.assert_array_equal(found[3], change_picture(tf.constant(x[3]), tf.constant(draws[3])).numpy())


def list_names(dataset):
    yield dataset._metadata.name.decode() if isinstance(dataset._metadata.name, bytes) else dataset._metadata.name
    for part in dataset._inputs():
        yield from list_names(part)


def test_stages_have_names(folder):
    plain = [
        "give",
        "augment",
        "resize",
        "crop",
        "decode",
        "read",
        "draw",
        "files",
        "shuffle",
        "files",
        "seeds",
        "seeds",
    ]
    assert [name for name in list_names(load(folder)) if name] == ["batch", *plain]
    fused = [*list_names(load(folder, fused=True, batch_first=True, prefetch=1, wait_ms=1))]
    assert [name for name in fused if name] == [
        "prefetch", "give", "augment", "batch", "resize", "decode", "wait", *plain[5:],
    ]  # fmt: skip


def test_a_wait_is_recorded_for_each_file(folder, tmp_path):
    times = str(tmp_path / "times")
    dataset = load(folder, wait_ms=0.1, times=times, parallel_calls=2)
    np.testing.assert_array_equal(collect(dataset)[0], collect(load(folder))[0])
    records = StartTimes(times).read()
    assert len(records) == 26 and np.all(records["end"] - records["start"] >= 1e-4)
    assert "Python code" in DatasetGraph(dataset).list_unkept()[0]


def test_the_model_takes_a_step(folder):
    keras.utils.set_random_seed(1)
    model = build_model(size=SIZE, filters=4, groups=2)
    x, y = next(iter(load(folder)))
    np.testing.assert_allclose(np.asarray(model(x)).sum(axis=1), 1, rtol=1e-5)
    before = [np.array(one) for one in model.trainable_variables]
    model.run_eagerly = True  # to trace it takes seconds
    logs = model.train_on_batch(x, y, return_dict=True)
    assert {*logs} == {"loss", "accuracy"} and np.isfinite(logs["loss"])
    changed = [np.any(one != np.asarray(two)) for one, two in zip(before, model.trainable_variables, strict=True)]
    assert all(changed)


def test_a_block_that_has_learned_nothing_passes_on_what_it_is_given():
    keras.utils.set_random_seed(1)
    inputs = keras.Input((6, 6, 4))
    for filters, stride in ((4, 1), (8, 2)):
        block = keras.Model(inputs, add_block(inputs, filters, stride))
        last = [one for one in block.layers if isinstance(one, keras.layers.Conv2D) and one.kernel_size == (3, 3)][-1]
        last.set_weights([np.zeros_like(last.get_weights()[0])])
        x = np.random.default_rng(1).normal(size=(2, 6, 6, 4)).astype(np.float32)
        found = np.asarray(block(x))
        assert found.shape == (2, 6 // stride, 6 // stride, filters)
        if stride == 1:
            np.testing.assert_array_equal(found, x)
        else:  # a projection of every second place of what is normalised
            assert np.ptp(found) > 0
