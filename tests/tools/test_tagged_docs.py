"""Markup that becomes labels: what is prose, what is a name, and that nothing but words is left. Without a network."""

import csv
import io
import re
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "data" / "docs_entities"
sys.path.insert(0, str(ROOT / "tools"))
try:
    import tagged_docs
    from docs_text.markup import LABELS, read_markup
    from docs_text.paragraphs import read_paragraphs
finally:
    sys.path.remove(str(ROOT / "tools"))

DOCUMENT = """\
=====
Title
=====

.. module:: shop
   :synopsis: left out

The shop has
two lines::

    code = is.left_out

* One point of a list.
* Another one,
  on two lines.

.. note:: words of the directive's own line are left out

    Notes are prose.

.. code-block:: python

    print("not read")

    Nor this.

.. method:: save(force=False)

    Saves it.

    :param force: a field

>>> doctest
======  ======
Name    Table
======  ======

term
    Its meaning.

.. a comment
   of two lines

The end.
"""


def test_paragraphs_are_prose():
    assert list(read_paragraphs(DOCUMENT)) == [
        "The shop has two lines:", "One point of a list.", "Another one, on two lines.", "Notes are prose.",
        "Saves it.", "term", "Its meaning.", "The end.",
    ]  # fmt: skip


def read(source):
    """Text, and what is marked in it."""
    found = read_markup(source)
    return found.text, [(found.text[start:end], label) for (start, end), label in found.marked]


@pytest.mark.parametrize(
    ("source", "text", "marked"),
    [
        ("A :class:`Model` here.", "A Model here.", [("Model", "CLASS")]),
        (":class:`~shop.models.Model`s", "Models", [("Model", "CLASS")]),
        (":py:class:`shop.Model`", "shop.Model", [("shop.Model", "CLASS")]),
        (":meth:`.save()` or save() or ``save()``", "save or save or save", [("save", "FUNCTION")]),
        (":meth:`!save`, :exc:`KeyError`", "save, KeyError", [("save", "FUNCTION"), ("KeyError", "EXCEPTION")]),
        (":class:`Model <shop.models.Model>`", "Model", [("Model", "CLASS")]),
        (":class:`the model <shop.models.Model>`", "the model", []),
        (":command:`shop run fast`", "shop run fast", [("shop run fast", "COMMAND")]),
        (":mod:`shop.a`; :setting:`USE_TZ`", "shop.a; USE_TZ", [("shop.a", "MODULE"), ("USE_TZ", "SETTING")]),
        ("``'a.b'`` and *this* and **that** and `default`", "a.b and this and that and default", []),
        ("`a link <https://x.org>`_ and `other`_ and word_ and __init__", "a link and other and word and __init__", []),
        (":ref:`a title <target>` of :pep:`8` [1]_", "a title of PEP 8 ", []),
        (r"escaped\ s and 2\*3", "escapeds and 2*3", []),
    ],
)  # fmt: skip
def test_only_words_remain(source, text, marked):
    assert read(source) == (text, marked)


@pytest.mark.parametrize(
    "source",
    [":ref:`target`", ":meth:`save(x, y)`", "``x = 1``", "|version| is new", ":unknown:`thing`", ":class:`a b c`"],
)
def test_what_is_not_understood_puts_its_sentence_in_doubt(source):
    paragraph = read_markup(f"It is right here. It needs {source} to work. So they say it.")
    assert list(tagged_docs.label_sentences(paragraph, set())) == ["It is right here .", "So they say it ."]


def label(source, known=()):
    return list(tagged_docs.label_sentences(read_markup(source), set(known)))


def test_labels_stand_behind_the_words_of_a_name():
    assert label("Call :meth:`Model.save` of the model's :class:`Manager`.") == [
        "Call Model|FUNCTION .|FUNCTION+ save|FUNCTION+ of the model 's Manager|CLASS ."
    ]
    assert label("There are :class:`Model`\\s in it.") == [], "a name that ends within a word"


def test_a_name_that_is_marked_elsewhere_must_be_marked():
    source = "The ``Model`` is a class. The ``other`` is one too."
    assert label(source, {"Model"}) == ["The other is one too ."]


@pytest.mark.parametrize(
    "text", ["no capital but an end.", "No end", "With x = 1 it ends.", "Use a --flag now.", "A {b}."]
)
def test_prose_has_no_marks_of_code(text):
    assert tagged_docs.is_prose(text) == (text[0] == "n")


def test_a_package_is_read_in_the_order_of_its_documents(monkeypatch):
    content = {
        "shop-1/docs/b.rst": "The second :class:`Model` is here.\n\nThe ``Model`` is left out.\n",
        "shop-1/docs/a.txt": "The first one names nothing.\n", "shop-1/docs/releases/1.txt": "It is left out here.\n",
        "shop-1/other/c.rst": "It is left out as well.\n", "shop-1/LICENSE": "Do what you like.\n",
    }  # fmt: skip
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        assert list(tagged_docs.read_package(archive)) == [
            ("docs/a.txt", "The first one names nothing ."), ("docs/b.rst", "The second Model|CLASS is here .")
        ]  # fmt: skip
        assert tagged_docs.read_licences(archive) == "LICENSE\n\nDo what you like.\n"


# what is shipped


def read_shipped():
    with (SHIPPED / "sentences.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def test_the_shipped_sentences_have_no_markup_and_known_labels():
    rows, labels = read_shipped(), set()
    assert len(rows) == 10_022 and len({row["words"] for row in rows}) == len(rows)
    for row in rows:
        words = [word.partition("|") for word in row["words"].split(" ")]
        labels |= {mark + label for _, mark, label in words}
        assert not re.search(r"[`|<>{}\\*]|\(\)", " ".join(word for word, *_ in words)), row
        assert tagged_docs.FEWEST_WORDS <= len(words) <= tagged_docs.MOST_WORDS
    assert labels - {""} <= {f"|{name}{end}" for name in LABELS.values() for end in ("", "+")}


def test_each_package_has_its_licence_and_is_in_the_readme():
    text = (SHIPPED / "README.md").read_text(encoding="utf-8")
    rows = read_shipped()
    names = {package.partition("==")[0] for package in tagged_docs.PACKAGES}
    assert {row["package"] for row in rows} == names == {path.stem for path in (SHIPPED / "licences").iterdir()}
    for package, licence in tagged_docs.PACKAGES.items():
        name, _, version = package.partition("==")
        kept = (SHIPPED / "licences" / f"{name}.txt").read_text(encoding="utf-8")
        assert kept.startswith(f"{name} {version}, {licence}\n") and len(kept) > 1000
    assert f"{len(rows) // 1000} {len(rows) % 1000:03d} sentences" in text and f"{len(names)} Python packages" in text
