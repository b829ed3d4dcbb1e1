"""What cannot be stored or read is refused, says why, and leaves nothing behind."""

import os
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tfperf
from tests.stores.pipelines import make, prepare, read_bytes, store
from tfperf.errors import RunDirectoryError, StorageError, UserCodeError, UserError
from tfperf.stores import preparing

NUMBERS = tf.data.Dataset.range(20)
COUNTER = tf.Variable(0, dtype=tf.int64)
DRAW = np.random.default_rng(1)


def draw(number):
    return number + DRAW.integers(2**40)


FAULTS = {
    "drawn": (lambda: NUMBERS.map(lambda i: tf.random.uniform(()), name="noise").map(lambda x: x, name="prepare"),
              "stage 'noise' .map. is random .RandomUniform"),
    "a state": (lambda: NUMBERS.map(lambda i: COUNTER.assign_add(1), name="prepare"), "has a state .*AssignAdd"),
    "random source": (lambda: tf.data.Dataset.random(1).take(9).map(lambda i: i, name="prepare"), "random is random"),
    "inner shuffle": (
        lambda: NUMBERS.interleave(lambda i: tf.data.Dataset.range(4).shuffle(4), name="mix").map(
            prepare, name="prepare"),
        "stage 'mix' .interleave. is random .*Shuffle"),
    "Python draws": (lambda: NUMBERS.map(lambda i: tf.numpy_function(draw, [i], tf.int64), name="py").map(
        lambda i: i, name="prepare"), "stage 'py' .map. is random: two passes"),
    "batch after shuffle": (lambda: NUMBERS.shuffle(9).batch(4, name="b").map(lambda i: i, name="prepare"),
                            "stage 'b' .batch. beside shuffle: their order"),
    "two shuffled": (lambda: tf.data.Dataset.zip((NUMBERS.shuffle(9, name="s"), NUMBERS), name="z").map(
        lambda a, b: a, name="prepare"), "stage 's' .shuffle. beside 'z' .zip."),
    "endless": (lambda: tf.data.Dataset.zip((NUMBERS, tf.data.Dataset.from_tensors(1).repeat()), name="z").map(
        lambda a, b: a, name="prepare"), "beside 'z'"),
    "counter": (lambda: tf.data.Dataset.counter().map(lambda a: a, name="prepare"), "stage scan beside repeat"),
    "varying": (lambda: NUMBERS.map(lambda i: (i, {"x": tf.fill((i % 3 + 1, 2), 1.0)}), name="prepare"),
                r"component 1.x varies in shape, \(1, 2\) and \(2, 2\)"),
    "varying late": (lambda: NUMBERS.map(lambda i: (i, tf.fill((i // 15 + 1,), 1.0)), name="prepare"),
                     r"component 1 varies in shape, \(1,\) and \(2,\)"),
    "last batch": (lambda: NUMBERS.batch(8, name="prepare"), r"component 0 varies in shape, \(8,\) and \(4,\)"),
    "text": (lambda: NUMBERS.map(tf.strings.as_string, name="prepare"), "component 0 is of type .*no fixed length"),
    "no elements": (lambda: NUMBERS.filter(lambda i: i < 0).map(lambda i: i, name="prepare"), "has no elements"),
    "no such stage": (lambda: NUMBERS.map(lambda i: i, name="other"), "no stage of that name; it has: other"),
    "too many components": (
        lambda: tf.data.Dataset.from_tensors({f"{n:0200}": np.int8(n % 9) for n in range(400)}).map(
            lambda one: one, name="prepare"),
        "an element has 400 components; HDF5 keeps their names"),
    "no value": (lambda: NUMBERS.map(lambda i: tf.zeros((0, 2)), name="prepare"), "have no values"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_cannot_be_stored_is_named_and_nothing_is_left(name, tmp_path):
    make_faulty, said = FAULTS[name]
    with pytest.raises(UserError, match=said):
        store(tmp_path / "store", make_faulty())
    assert not list(tmp_path.iterdir())


def test_a_last_batch_that_is_smaller_is_told_before_anything_is_stored(tmp_path, monkeypatch):
    def start(*_):
        raise AssertionError

    monkeypatch.setattr(preparing, "begin_store", start)
    with pytest.raises(
        UserError, match=r"'prepare' .map.: component 0 varies in shape, \(2,\) and \(1,\).*drop_remainder"
    ):
        store(tmp_path / "store", tf.data.Dataset.range(101).batch(2).map(lambda i: i * 2, name="prepare"))


def test_what_the_pipeline_raises_is_told_and_the_store_goes_on(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text("".join(f"{number}\n" for number in range(19)) + "x\n")

    def make_lines():
        return tf.data.TextLineDataset(str(file)).map(lambda text: tf.strings.to_number(text), name="prepare")

    with pytest.raises(UserCodeError, match=r"of number 0 or later, could not be made: .*StringToNumber"):
        store(tmp_path / "store", make_lines())
    with pytest.raises(RunDirectoryError, match="is not finished"):
        tfperf.open_store(tmp_path / "store")


@pytest.mark.parametrize("data", [np.zeros((3, 2)), (np.zeros(3), np.zeros(3)), "text", [1, 2]])
def test_other_data_are_refused(data, tmp_path):
    with pytest.raises(UserError, match=r"must be a tf\.data\.Dataset"):
        tfperf.store(data, tmp_path / "store")


def test_folders_of_others_are_refused_and_stay_as_they_are(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "photo.jpg").write_text("mine")
    for name, said in (("file", "it is a file"), ("folder", r"holds something else \(photo.jpg\)")):
        with pytest.raises(RunDirectoryError, match=said):
            store(tmp_path / name, make("in order"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "photo.jpg"]
    store(tmp_path / "store", make("in order"))
    with pytest.raises(RunDirectoryError, match=r"another pipeline \(other number of elements, stages"):
        store(tmp_path / "store", tf.data.Dataset.range(4).map(prepare, name="prepare"))
    assert len(read_bytes(tfperf.open_store(tmp_path / "store"))) == 50


def test_what_is_no_store_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for name, said in (("none", "no such folder"), ("file", "is no folder"), (".", "holds no store")):
        with pytest.raises(RunDirectoryError, match=said):
            tfperf.open_store(tmp_path / name)


def test_a_disk_without_room_is_refused(tmp_path, monkeypatch):
    size = 20 * 8
    for free, said in ((size, "on another disk"), (2 * size - 1, "more than half")):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: type("Usage", (), {"free": free})())
        with pytest.raises(StorageError, match=said):
            store(tmp_path / "store", NUMBERS.map(lambda i: i, name="prepare"))
        assert not list(tmp_path.iterdir())
    tfperf.store(NUMBERS.map(lambda i: i, name="prepare"), tmp_path / "store", yes=True)


def damage(path, place, keep_time=False):
    before = path.stat()
    with open(path, "r+b") as file:
        file.seek(place, os.SEEK_SET if place >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 16]))
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_flipped_bit_is_found(tmp_path):
    store(tmp_path / "store", make("in order"))
    file = tmp_path / "store" / "elements.h5"
    tfperf.open_store(tmp_path / "store", verify=True)
    damage(file, -1, keep_time=True)
    tfperf.open_store(tmp_path / "store")  # it looks like the file that was written
    for ask in (lambda: tfperf.open_store(tmp_path / "store", verify=True),
                lambda: store(tmp_path / "store", make("in order"))):  # fmt: skip
        with pytest.raises(RunDirectoryError, match="1 of 1 checksums do not fit, the first of elements 0 to 49"):
            ask()
    os.utime(file)
    with pytest.raises(RunDirectoryError, match="checksums do not fit"):
        tfperf.open_store(tmp_path / "store")
    damage(file, -1)
    tfperf.open_store(tmp_path / "store")  # touched, and as it was


@pytest.mark.parametrize(("name", "place"), [("elements.h5", 200), ("elements.h5", 9), ("store.json", 40),
                                             ("sources.txt", -5)])  # fmt: skip
def test_damage_anywhere_is_refused(name, place, tmp_path):
    source = tmp_path / "numbers.txt"
    source.write_text("".join(f"{i}\n" for i in range(9)))

    def make_read():
        lines = tf.data.TextLineDataset(str(source))
        return lines.map(lambda text: tf.strings.to_number(text), name="prepare")

    store(tmp_path / "store", make_read())
    assert len(read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make_read()))) == 9
    damage(tmp_path / "store" / name, place)
    with pytest.raises(RunDirectoryError, match="damaged"):
        tfperf.open_store(tmp_path / "store", pipeline=make_read())


def test_a_short_file_and_a_missing_one_are_refused(tmp_path):
    store(tmp_path / "store", make("in order"))
    file = tmp_path / "store" / "elements.h5"
    os.truncate(file, file.stat().st_size - 1)
    with pytest.raises(RunDirectoryError, match="damaged"):
        tfperf.open_store(tmp_path / "store")
    file.unlink()
    with pytest.raises(RunDirectoryError, match="missing"):
        tfperf.open_store(tmp_path / "store")


@pytest.mark.parametrize(
    "wrong", [{"chunk": 1.5}, {"chunk": "4"}, {"chunk": True}, {"chunk": 2**70}, {"chunk": 2, "seed": "a"}, {"seed": 4}]
)
def test_chunks_and_seeds_that_are_none_are_refused(tmp_path, wrong):
    with pytest.raises(UserError, match="got"):
        tfperf.open_store(tmp_path, **wrong)
