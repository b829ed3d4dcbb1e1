#!/usr/bin/env python3
"""Write sentences of the documentation of permissively licensed Python packages, with the things that they name.

    python tools/tagged_docs.py -o data/docs_entities

Authors mark the names of classes, functions, settings and others by roles, as :class:`Model`: these become labels, and
all markup goes. Output: sentences.tsv (package, document, labelled words; README.md there tells the form), and
licences/, the licence files of each package. The versions are fixed, so that the result is the same on each machine.
"""

import argparse
import csv
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Set
from pathlib import Path, PurePosixPath

from docs_text.markup import Paragraph, read_markup
from docs_text.paragraphs import read_paragraphs

from tfperf.zoo.words import split_sentences, split_words

# source distribution, its licence: read in its licence file, not taken from its metadata, as some have another licence
# for their documentation (Celery's is shared alike: not here)
PACKAGES = {
    "Django==5.2.19": "BSD-3-Clause", "Scrapy==2.19.0": "BSD-3-Clause", "Sphinx==9.0.4": "BSD-2-Clause",
    "aiohttp==3.14.5": "Apache-2.0", "Flask==3.1.3": "BSD-3-Clause", "Werkzeug==3.1.9": "BSD-3-Clause",
    "pytest==9.2.0": "MIT", "alembic==1.20.1": "MIT", "trio==0.35.0": "MIT or Apache-2.0",
    "distributed==2026.8.0": "BSD-3-Clause", "Jinja2==3.1.6": "BSD-3-Clause",
}  # fmt: skip
DOCUMENT = re.compile(r"^docs?/(?:.*/)?[^/]+\.(?:rst|txt)$")
# lists of changes, of people and of files: no prose
LEFT_OUT = re.compile(
    r"/(?:releases|whatsnew|history|announce|changelog|_|internals/deprecation)|change|requirements|LICEN|AUTHORS",
    re.I,
)
LICENCE = re.compile(r"^[^/]+/(?:LICEN[CS]E|COPYING)(?:\.[^/]*)?$", re.IGNORECASE)
FEWEST_WORDS, MOST_WORDS = 5, 40
# what is no prose: marks of code and of markup that was not understood
STRANGE = re.compile(r"[`|<>{}\\*=$@#~^]|::|https?:|[^\x20-\x7e‘’“”–—…]|\.\.|_\s|(?<!\w)-\w|--|/\w+/")
END = re.compile(r"[.?!:][\"')\]]*$")
BEGIN = re.compile(r"[\"'(]?[\w]")
PLAIN_SHARE = 8  # of the sentences that name nothing, one in so many is kept
Row = tuple[str, str, str]  # package, document, labelled words


def download(package: str, folder: Path) -> tarfile.TarFile:
    """The source distribution of a package, by pip."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:", "-d", str(folder)]
    subprocess.run([*command, package], check=True)
    return tarfile.open(next(folder.glob("*.tar.gz")))


def read_text(archive: tarfile.TarFile, name: str) -> str:
    """A text file of an archive."""
    file = archive.extractfile(name)
    assert file is not None
    return file.read().decode("utf-8", "replace")


def label_sentences(paragraph: Paragraph, known: Set[str]) -> Iterator[str]:
    """Those sentences of a paragraph that are prose, as words with labels: `the Model|CLASS .|CLASS+ save|CLASS+ way`.

    known: names that are marked somewhere in the package. Authors often mark the first mention alone: a sentence with
    such a name that is not marked would call it nothing, and is left out.
    """
    for start, end in split_sentences(paragraph.text):
        if not is_prose(paragraph.text[start:end]) or any(start <= place < end for place in paragraph.doubts):
            continue
        names = [paragraph.text[first:last] for first, last in paragraph.named if start <= first < end]
        words = [(start + first, start + last) for first, last in split_words(paragraph.text[start:end])]
        labels = paragraph.label_words(words)
        if labels is not None and FEWEST_WORDS <= len(words) <= MOST_WORDS and known.isdisjoint(names):
            texts = (paragraph.text[first:last] for first, last in words)
            yield " ".join(f"{word}|{label}" if label else word for word, label in zip(texts, labels, strict=True))


def is_prose(text: str) -> bool:
    """Whether a reader would call it a sentence."""
    return bool(not STRANGE.search(text) and END.search(text) and BEGIN.match(text))


def is_kept(words: str) -> bool:
    """All that name something, and some of the others, chosen by their digest."""
    return "|" in words or hashlib.sha256(words.encode()).digest()[0] % PLAIN_SHARE == 0


def read_package(archive: tarfile.TarFile) -> Iterator[tuple[str, str]]:
    """Document and labelled words of each sentence, in the order of the documents' names."""
    paragraphs = []
    for name in sorted(archive.getnames()):
        document = str(PurePosixPath(*PurePosixPath(name).parts[1:]))
        if DOCUMENT.search(document) and not LEFT_OUT.search(document):
            paragraphs += [(document, read_markup(one)) for one in read_paragraphs(read_text(archive, name))]
    marked = {paragraph.text[start:end] for _, paragraph in paragraphs for (start, end), _ in paragraph.marked}
    known = marked | {name.rpartition(".")[2] for name in marked}
    for document, paragraph in paragraphs:
        for words in label_sentences(paragraph, known):
            yield document, words


def read_licences(archive: tarfile.TarFile) -> str:
    """The licence files of a source distribution."""
    found = sorted(filter(LICENCE.search, archive.getnames()))
    if not found:
        raise SystemExit(f"{archive.name!r}: no licence file")
    parts = (f"{name.rpartition('/')[2]}\n\n{read_text(archive, name).strip()}\n" for name in found)
    return "\n\n".join(parts)


def write_sentences(output: Path) -> int:
    """Write everything; returns the number of sentences. A sentence counts for the first document that has it."""
    rows: list[Row] = []
    seen: set[str] = set()
    (output / "licences").mkdir(parents=True, exist_ok=True)
    for package, licence in PACKAGES.items():
        name, _, version = package.partition("==")
        with tempfile.TemporaryDirectory() as folder, download(package, Path(folder)) as archive:
            found = list(read_package(archive))
            text = f"{name} {version}, {licence}\n\n{read_licences(archive)}"
        (output / "licences" / f"{name}.txt").write_text(text, encoding="utf-8")
        before = len(rows)
        for document, words in found:
            if words not in seen and is_kept(words):
                rows.append((name, document, words))
                seen.add(words)
        print(f"{package}: {len(rows) - before} sentences", flush=True)
    with (output / "sentences.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        writer.writerow(("package", "document", "words"))
        writer.writerows(rows)
    return len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    print(f"{write_sentences(parser.parse_args().output)} sentences")
