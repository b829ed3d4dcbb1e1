"""Large and deep input: refused at once, in messages that can be read."""

import time

import pytest

from tests.runcard.cards import PACK, SHIPPED, SHORT, faults, write
from tfperf.errors import CardError, UserError
from tfperf.runcard.dump import dump_card, to_tree
from tfperf.runcard.tree import parse_plain
from tfperf.workloads.cards import load_points
from tfperf.workloads.pdf.cards import load_card

KB64 = 64 * 1024
LIST_32 = list(range(1, 33))


def refused(folder, *overrides, text=SHORT):
    """The error of a card, and the CPU seconds that it took."""
    start = time.process_time()
    with pytest.raises(CardError) as caught:
        load_card(write(folder, text), list(overrides))
    return caught.value, time.process_time() - start


def test_an_override_of_50_000_names_is_refused_by_its_size(tmp_path):
    names = ", ".join(f"SET_{i}" for i in range(50_000))
    error, seconds = refused(tmp_path, f"data.exclude=[{names}]")
    assert str(error) == f"--set data.exclude: got {15 + len(names)} characters; all overrides have 65536 at most"
    assert seconds < 0.5


def test_overrides_are_bounded_together(tmp_path):
    error, _ = refused(tmp_path, *[f"title={'x' * 990}"] * 66, f"data.exclude=[{'y' * 900}]")
    assert "--set title: the longest of 67, together" in str(error)
    error, _ = refused(tmp_path, *["seed=1"] * 1001)
    assert str(error) == "--set: given 1001 times; 1000 overrides at most"


def test_a_fault_does_not_repeat_the_override(tmp_path):
    error, seconds = refused(tmp_path, f"data.exclude=[{', '.join(map(str, range(900)))}]")
    assert len(error.faults) == 101 and max(map(len, error.faults)) < 200
    assert error.faults[0].endswith("data.exclude.0: got 0; must be text")
    assert seconds < 2


@pytest.mark.parametrize(
    ("override", "most"),
    [
        (f"data.exclude=[{', '.join(f'S{i}' for i in range(1001))}]", 1000),
        (f"data.sets=[{', '.join(f'{{name: S{i}}}' for i in range(1001))}]", 1000),
        (f"positivity.sets=[{', '.join(f'S{i}' for i in range(1001))}]", 1000),
        (f"engine.retire_at=[{', '.join(map(str, range(1, 1002)))}]", 1000),
        (f"sweep.keys={{seed: [{', '.join(map(str, range(1001)))}]}}", 1000),
        (f"title={'x' * 1001}", 1000),
        (f"data.exclude=[{'x' * 257}]", 256),
    ],
)
def test_lists_and_texts_are_bounded(override, most, tmp_path):
    error, _ = refused(tmp_path, override)
    assert f"must have at most {most} " in str(error), error


def test_many_names_that_stand_in_a_list_before_take_no_time(tmp_path):
    text = SHORT.replace(PACK, f"{PACK}, exclude: [{', '.join(['A'] * 1000)}]")
    error, seconds = refused(tmp_path, text=text)
    assert len(error.faults) == 101 and seconds < 1


def test_a_message_is_at_most_64_kb():
    error = UserError(*["x" * 100] * 10_000, "y" * 10**6)
    assert len(str(error).encode()) <= KB64 and str(error).endswith("more")
    assert len(str(UserError("é" * 10**6))) < KB64
    assert UserError("a", "b").faults == ("a", "b")


def test_a_key_is_no_deeper_than_a_card(tmp_path):
    for override in ("a." * 5000 + "a=", "a." * 5000 + "a=1"):
        error, _ = refused(tmp_path, override)
        assert "nested deeper than 10 levels" in str(error) and len(str(error)) < 300
    sweep = f"sweep:\n  keys:\n    {'a.' * 50}a: [1]\n"
    with pytest.raises(CardError, match=r"sweep\.keys\.a\.a.*: cannot be swept"):
        load_points(write(tmp_path, SHORT + sweep))


@pytest.mark.parametrize("index", ["1" * 5000, "٠", "²", "-1", "01"])
def test_an_index_is_a_short_plain_number(index, tmp_path):
    error, _ = refused(tmp_path, f"data.exclude.{index}=B", text=SHORT.replace(PACK, f"{PACK}, exclude: [A]"))
    assert "no such entry; data.exclude is a list of 1, counted from 0" in str(error)


@pytest.mark.parametrize("key", ["\udcff", "a\0b", "a\x1b[2Jb", "a\nb"])
def test_a_key_is_printable(key, tmp_path):
    error, _ = refused(tmp_path, f"{key}=1")
    assert "the key in printable characters" in str(error)
    assert str(error).isprintable()


@pytest.mark.parametrize("overrides", ["seed=1", b"seed=1", 5, [5], None])
def test_overrides_are_a_list_of_texts(overrides, tmp_path):
    with pytest.raises(CardError, match=r"overrides: got .*; must be .*key\.sub=value"):
        load_card(write(tmp_path, SHORT), overrides)


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
def test_lines_are_those_of_editors(end, tmp_path):
    """YAML 1.1 ends lines at these, too."""
    assert faults(tmp_path, f"title: a{end}{SHORT}sede: 1\n") == ["4: sede: unknown key; did you mean `seed`?"]
    assert faults(tmp_path, f"title: a{end}{SHORT}sede: a: b\n")[0].startswith("4: not readable as YAML")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_ends_of_lines_count(end, tmp_path):
    assert faults(tmp_path, (SHORT + "sede: 1\n").replace("\n", end)) == ["4: sede: unknown key; did you mean `seed`?"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_dumped_card_is_read_back(name, tmp_path):
    card = load_card(write(tmp_path, SHIPPED[name]))
    assert parse_plain(dump_card(card)) == to_tree(card)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: " + "[" * 100_000, "nested deeper than 10 levels"),
        ("a:\n" + "".join(" " * i + "a:\n" for i in range(1, 400)), "nested deeper than 10 levels"),
        ("- 1", "no mapping"),
        ("", "no mapping"),
        ("a", "no mapping"),
        ("a: &x 1\nb: *x", "line 2: b: got the alias"),
        ("a: 1\na: 2", "line 2: a: given twice"),
        ("a: !!python/object:os.system 1", "got the tag"),
        ("a: \0", "control character"),
        ("a: [", "not readable as YAML"),
        ("a: " + "x" * 2**20, "longer than 1048576 characters"),
    ],
)
def test_what_no_dump_holds_is_refused(text, words):
    with pytest.raises(CardError, match=words):
        parse_plain(text)


def test_a_thousand_points_load_fast(tmp_path):
    sweep = "sweep: {keys: {seed: {from: 1, to: 1000, step: 1}}}\n"
    start = time.process_time()
    _, points = load_points(write(tmp_path, SHIPPED["pdf_dis.yaml"] + sweep))
    assert [p.card.seed for p in points] == list(range(1, 1001))
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    "sweep",
    [
        "{seed: {from: 0, to: 1000, step: 1}}",
        "{seed: {from: 1, to: 32, step: 1}, replicas: {from: 1, to: 32, step: 1}}",
    ],
)
def test_a_sweep_has_at_most_a_thousand_points(sweep, tmp_path):
    with pytest.raises(CardError, match="must give at most 1000"):
        load_points(write(tmp_path, f"{SHORT}sweep: {{keys: {sweep}}}\n"))


def test_points_share_what_they_do_not_change(tmp_path):
    """A point must not leave its value in the next one."""
    keys = "{data.sets.0.weight: [2.0, 3.0], closure.level: [0, 2]}"
    text = SHORT.replace(PACK, f"{PACK}, sets: [{{name: A}}]") + f"sweep: {{keys: {keys}}}\n"
    card, points = load_points(write(tmp_path, text))
    assert [(p.card.data.sets[0].weight, p.card.closure.level) for p in points] == [(2, 0), (2, 2), (3, 0), (3, 2)]  # type: ignore[attr-defined]
    assert card.data.sets[0].weight == 1 and card.closure is None  # type: ignore[attr-defined]
