"""Files that a pipeline reads are known by the texts in its graph; what is no source of it does not count."""

import os

import pytest
import tensorflow as tf

import tfperf
from tests.stores.pipelines import read_bytes, store
from tfperf.errors import UserError
from tfperf.inputs.graph_copy import read_graph
from tfperf.stores import source_files

NAMES = [f"{number}.txt" for number in range(4)]


def write_numbers(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(NAMES):
        (folder / name).write_text(str(number))
    return folder


def make_joined(folder, separator="/"):
    """The folder and the names meet in the graph alone."""

    def read(name):
        parts = tf.strings.split(tf.strings.join([str(folder), name], separator), separator)
        return tf.strings.to_number(tf.io.read_file(tf.strings.reduce_join(parts, separator=separator)))

    return tf.data.Dataset.from_tensor_slices(NAMES).map(read, name="prepare").batch(2)


PLACES = {
    "a folder": (None, "store", 1), "the store's own folder": (None, "work/texts/store", 0),
    "the working directory": (".", "work/store", 0), "above it": ("..", "work/store", 0),
}  # fmt: skip


@pytest.fixture(params=PLACES)
def given(request, tmp_path, monkeypatch):
    """A folder in the words of a program, where the store is to be, and how many folders are walked."""
    word, where, count = PLACES[request.param]
    folder = write_numbers(tmp_path / "work" / "texts")
    monkeypatch.chdir(folder.parent)
    if word is not None:
        write_numbers(folder.parent / word)
    return word or str(folder), tmp_path / where, count


def test_separators_and_folders_with_the_store_are_no_sources(given, monkeypatch):
    walked, walk = [], os.walk

    def note(top, **more):
        walked.append(top)
        return walk(top, **more)

    monkeypatch.setattr("os.walk", note)
    word, where, count = given
    store(where, make_joined(word))
    (where.parent / "run.log").write_text("of another program")
    assert read_bytes(tfperf.open_store(where, pipeline=make_joined(word))) == read_bytes(make_joined(word))
    assert len(set(walked)) == count and not {"/", ".", ".."} & set(walked)


@pytest.mark.parametrize("where", ["store", "texts/store"])
def test_what_is_named_in_a_folder_with_the_store_counts(where, tmp_path):
    folder = write_numbers(tmp_path / "texts")
    store(tmp_path / where, make_joined(folder))
    (folder / "2.txt").write_text("77")
    with pytest.raises(UserError, match=r"changed .*2\.txt; store again"):
        tfperf.open_store(tmp_path / where, pipeline=make_joined(folder))


def test_a_link_to_nothing_hides_no_change(tmp_path):
    folder = write_numbers(tmp_path / "texts")
    os.symlink(tmp_path / "nothing", folder / "0.link")
    (folder / "inner").mkdir()
    os.symlink(folder, folder / "inner" / "round")
    store(tmp_path / "store", make_joined(folder))
    assert len(read_bytes(tfperf.open_store(tmp_path / "store", pipeline=make_joined(folder)))) == 2
    (tmp_path / "nothing").write_text("something")
    (folder / "3.txt").write_text("33")
    with pytest.raises(UserError, match=r"changed .*3\.txt; new .*0\.link; store again"):
        tfperf.open_store(tmp_path / "store", pipeline=make_joined(folder))


def test_files_behind_a_link_count(tmp_path):
    write_numbers(tmp_path / "elsewhere")
    (tmp_path / "texts").mkdir()
    os.symlink(tmp_path / "elsewhere", tmp_path / "texts" / "more")
    source = make_joined(tmp_path / "texts").unbatch()  # reads nothing yet
    found = source_files.find_source_files(read_graph(source), tmp_path / "store")
    assert sorted(found) == [str(tmp_path / "texts" / "more" / name) for name in NAMES]


def test_a_walk_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(source_files, "MOST_FILES", 2)
    folder = write_numbers(tmp_path / "texts")
    found = source_files.find_source_files(read_graph(make_joined(folder)), tmp_path / "store")
    assert sorted(found) == [str(folder / name) for name in NAMES[:2]]


def make_named(paths):
    """Files of these names, which may be tensors of a function's."""
    return paths.map(lambda path: tf.strings.to_number(tf.io.read_file(path)), name="prepare").batch(2)


def make_numbered(beginning):
    numbers = tf.data.Dataset.range(4).map(tf.strings.as_string)
    return make_named(numbers.map(lambda number: tf.strings.join([beginning, number, ".txt"])))


def make_fitting(pattern):
    return make_named(tf.data.Dataset.from_tensors(pattern).flat_map(
        lambda one: tf.data.Dataset.from_tensor_slices(tf.io.matching_files(one))))  # fmt: skip


def make_listed(folder):
    lists = folder.parent / "list"
    lists.mkdir(exist_ok=True)
    names = lists / "names"
    if not names.exists():
        names.write_text("".join(f"{folder / name}\n" for name in NAMES))
    return make_named(tf.data.TextLineDataset(str(names)))


WORDS = {
    "the beginning of names": lambda folder: make_numbered(f"{folder}/b"),
    "a pattern": lambda folder: make_fitting(f"{folder}/b*.txt"),
    "a scheme": lambda folder: make_named(tf.data.Dataset.from_tensor_slices(
        [f"file://{folder}/b{name}" for name in NAMES])),
}  # fmt: skip


@pytest.mark.parametrize("where", ["store", "texts/store", "texts/b.store"])
@pytest.mark.parametrize("kind", WORDS)
def test_other_words_for_files_count(kind, where, tmp_path):
    folder = write_numbers(tmp_path / "texts")
    for name in NAMES:
        os.rename(folder / name, folder / f"b{name}")
    found = store(tmp_path / where, WORDS[kind](folder))
    assert not found.summary["is_unwatched"]
    (folder / "other.txt").write_text("of another program")
    got = tfperf.open_store(tmp_path / where, pipeline=WORDS[kind](folder))
    assert read_bytes(got) == read_bytes(WORDS[kind](folder))
    (folder / "b2.txt").write_text("77")
    with pytest.raises(UserError, match=r"changed .*b2\.txt; store again"):
        tfperf.open_store(tmp_path / where, pipeline=WORDS[kind](folder))


def test_files_whose_names_come_from_data_are_told_and_watched_on_demand(tmp_path):
    folder = write_numbers(tmp_path / "texts")
    found = store(tmp_path / "store", make_listed(folder))
    assert found.summary["is_unwatched"] and not store(tmp_path / "joined", make_joined(folder)).summary["is_unwatched"]
    watched = tfperf.store(make_listed(folder), tmp_path / "watched", after="prepare", watch=folder)
    assert not watched.summary["is_unwatched"]
    (folder / "2.txt").write_text("77")
    tfperf.open_store(tmp_path / "store", pipeline=make_listed(folder))  # as it said
    with pytest.raises(UserError, match=r"changed .*2\.txt; store again"):
        tfperf.open_store(tmp_path / "watched", pipeline=make_listed(folder))


def test_what_cannot_be_watched_is_refused(tmp_path):
    for watch, said in ((tmp_path / "none", "no such file or folder"), (tmp_path, "holds the store")):
        with pytest.raises(UserError, match=f"watch: .*{said}"):
            tfperf.store(tf.data.Dataset.range(3).map(lambda i: i + 1), tmp_path / "store", watch=[watch])
    assert not list(tmp_path.iterdir())
