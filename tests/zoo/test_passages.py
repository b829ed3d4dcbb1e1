"""Passages of installed documentation: what is one, that they are the same each time, and the files that hold them."""

import json
import subprocess
import sys

import h5py
import pytest
from click.testing import CliRunner

from tfperf.errors import StorageError, UserError
from tfperf.sources.records.files import list_files
from tfperf.sources.records.opening import open_records
from tfperf.zoo import passages, passages_sources
from tfperf.zoo.passages import BLANK, collect_passages, is_prose, iterate_passages, write_groups, write_passages
from tfperf.zoo.passages_command import make_passages
from tfperf.zoo.passages_sources import iterate_docstrings, list_folders, list_source_files, list_topics
from tfperf.zoo.passages_tokenizer import SPECIAL, write_tokenizer

PROSE = "Return the number of items that the container holds."
COUNT = 700


@pytest.fixture(scope="module")
def some():
    return collect_passages(COUNT)


def test_passages_are_prose_on_one_line_each_once(some):
    assert len(set(some)) == len(some) == COUNT
    for one in some:
        assert one == " ".join(one.split()) and len(one.split(" ")) >= 8 and one.isprintable() and ">>>" not in one
        assert "\n" not in one and one.encode().decode() == one


def test_the_first_ones_are_the_topics_of_pythons_help_and_docstrings_follow(some):
    parts = {" ".join(part.split()) for text in list_topics() for part in BLANK.split(text)}
    assert some[0] in parts and sum(one in parts for one in some) > COUNT / 2
    first = next(iter(iterate_docstrings(list_source_files(list_folders()[0])[0])))
    assert "record of phased-in incompatible" in first.lower()  # of __future__.py, the first file of Python's library


def test_they_are_cut_at_blank_lines_and_repeated_ones_left_out():
    other = PROSE.replace(" number", " name")
    broken = other.replace(" of ", "\n    of ")
    texts = [f"Title\n=====\n\n{PROSE}\n \t\n{broken}\n\n>>> {PROSE}", f"{other}\n\n{PROSE} More."]
    assert list(iterate_passages(iter(texts))) == [PROSE, other, f"{PROSE} More."]


@pytest.mark.parametrize(
    "text", ["seven words are not enough for it", f"{PROSE}\x1b[2J", f"{PROSE}\ud800", f"| 1 2 3 4 5 6 | {'1' * 40}"]
)
def test_what_is_no_prose(text):
    assert is_prose(PROSE) and not is_prose(text)


def test_docstrings_are_parsed_and_no_file_is_run(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        '"""Of the module."""\nraise SystemExit\n'
        'class A:\n    """Of\n    A."""\n    async def b(self):\n        "\\d"\n'
    )
    assert list(iterate_docstrings(path)) == ["Of the module.", "Of\nA.", "\\d"]
    for content in (b"def", b"\0", b"x = '\xff'", b"(" * 100_000):
        path.write_bytes(content)
        assert list(iterate_docstrings(path)) == []
    assert list(iterate_docstrings(tmp_path / "none.py")) == []


def test_files_are_in_one_order_without_tests(tmp_path):
    for name in ("b/c.py", "b.py", "a/x.py", "a/tests/y.py", "a/notes.txt", "test/z.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in list_source_files(tmp_path)] == [
        "a/x.py", "b.py", "b/c.py"
    ]  # fmt: skip


def test_a_package_that_is_missing_is_passed_over(monkeypatch):
    monkeypatch.setattr(passages_sources, "PACKAGES", ("tfperf_made_up_missing", "click"))
    library, click = list_folders()
    assert (library / "ast.py").is_file() and click.name == "click"


def test_nothing_that_is_read_is_imported(tmp_path):
    code = (
        "import sys\n"
        "from tfperf.zoo.passages import collect_passages\n"
        "found = collect_passages(300)\n"
        "assert not {'tensorflow', 'keras', 'scipy', 'matplotlib', 'antigravity'} & set(sys.modules)\n"
        "print(hash(tuple(found)))\n"
    )
    said = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": "0", "PYTHONPATH": ":".join(sys.path)},
                       capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }  # fmt: skip
    assert len(said) == 1


def test_a_text_file_has_a_passage_in_each_line(some, tmp_path):
    path = tmp_path / "passages.txt"
    assert write_passages(path, 50) == some[:50]
    assert path.read_text(encoding="utf-8").split("\n") == [*some[:50], ""]
    columns, _ = open_records("lines", list_files([str(path)], "source.lines")).read(0, 50)
    assert columns["text"] == some[:50]


@pytest.mark.parametrize("size", [1, 20, 49, 50, 60])
def test_groups_are_read_one_after_the_other(some, tmp_path, size):
    path = tmp_path / "passages.h5"
    write_groups(some[:50], path, size)
    with h5py.File(path) as file:
        assert sorted(map(int, file["batches"])) == list(range(-(-50 // size)))
        assert {len(one["text"]) for one in file["batches"].values()} <= {size, 50 % size or size}
    records = open_records("hdf5", list_files([str(path)], "source.hdf5"), ("batches/*/text",))
    columns, ids = records.read(0, 50)
    assert columns["batches/*/text"] == some[:50] and list(ids) == list(range(50))


def test_the_name_of_the_file_says_the_layout(some, tmp_path):
    assert write_passages(tmp_path / "p.h5", 3) == some[:3]
    with h5py.File(tmp_path / "p.h5") as file:
        assert [one.decode() for one in file["batches/0/text"][:]] == some[:3]


def test_more_than_there_are_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(passages, "iterate_texts", lambda: iter([PROSE]))
    with pytest.raises(UserError, match="count: got 2; the documentation that is installed has 1 passages"):
        write_passages(tmp_path / "p.txt", 2)
    assert not list(tmp_path.iterdir())


def content(path):
    """The arrays of an HDF5 file, by name."""
    arrays = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, one: arrays.update({name: list(one[()])}) if hasattr(one, "dtype") else None)
    return arrays


def run(*words):
    return CliRunner().invoke(make_passages, list(map(str, words)))


@pytest.mark.parametrize(("layout", "name"), [("lines", "passages.txt"), ("hdf5", "passages.h5")])
def test_the_command_makes_a_folder(some, tmp_path, layout, name):
    pytest.importorskip("tokenizers")
    out = tmp_path / "new" / "out"
    done = run(out, "--count", 300, "--layout", layout, "--vocabulary", 500)
    assert done.exit_code == 0 and "300 in " in done.output and "500 in " in done.output, done.output
    assert "reading documentation" in done.output and "training the tokenizer" in done.output
    assert sorted(path.name for path in out.iterdir()) == [name, "tokenizer.json"]
    # the same again, over what is there; HDF5 writes the second into a file that it is made in
    before = read_folder(out)
    assert run(out, "--count", 300, "--layout", layout, "--vocabulary", 500, "-q").exit_code == 0
    assert read_folder(out) == before


def read_folder(folder):
    """The bytes of each file, of HDF5 its arrays."""
    return {path.name: content(path) if path.suffix == ".h5" else path.read_bytes() for path in folder.iterdir()}


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    (tmp_path / "out").touch()
    done = run(tmp_path / "out", "--count", 10)
    assert isinstance(done.exception, StorageError)


def test_the_tokenizer_begins_and_ends_texts_and_knows_padding(some, tmp_path):
    library = pytest.importorskip("tokenizers")
    size = write_tokenizer(some, tmp_path / "t.json", 800)
    found = library.Tokenizer.from_file(str(tmp_path / "t.json"))
    assert size == found.get_vocab_size() == 800
    assert [found.token_to_id(one) for one in SPECIAL] == [0, 1, 2, 3, 4]
    for text in some[:100]:
        encoding = found.encode(text)
        assert encoding.tokens[0] == "[CLS]" and encoding.tokens[-1] == "[SEP]" and 0 not in encoding.ids
    assert found.encode("The FUNCTION returns").ids == found.encode("the function returns").ids
    assert found.decode(found.encode("the function returns a value").ids) == "the function returns a value"


def test_few_texts_give_a_small_tokenizer(tmp_path):
    pytest.importorskip("tokenizers")
    assert write_tokenizer([PROSE] * 2, tmp_path / "t.json") < 200
    assert json.loads((tmp_path / "t.json").read_text())["model"]["type"] == "WordPiece"


def test_without_the_library_the_command_that_installs_it_is_told(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match=r"tokenizers cannot be imported: pip install 'tfperf\[predict\]'"):
        write_tokenizer([PROSE], tmp_path / "t.json")
