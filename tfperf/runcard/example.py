"""The commented example card: every block and key at its default, described in the words of the schema."""

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfperf.runcard.dump import as_tree
from tfperf.runcard.scalars import inline
from tfperf.runcard.sweep import Sweep
from tfperf.runcard.types import replica_ids
from tfperf.workloads.pdf.card import Card, Closure, Data, Profile, Train
from tfperf.workloads.registry import REPLICAS

WIDTH = 118
OFF = ("closure", "profile", "sweep")  # blocks that change what is done; shown as comments
HEAD = """\
# A fit of network replicas. Paths are relative to this file. Only replicas, data.pack and train.steps must be given:
# every other key may be left out, and then has the value shown here. `tfperf check` says what is wrong with a card.
"""


def example_card(pack: Path | str) -> str:
    """A card that fits all of a pack, with a comment for each key; `pack` is written as given."""
    card = Card(title="An example", replicas=replica_ids(100), data=Data(pack=Path(pack)), train=Train(steps=17_000))
    tree = as_tree(card)
    tree["closure"], tree["profile"] = asdict(Closure()), asdict(Profile())
    tree["sweep"] = asdict(Sweep(keys={"train.optimizer.learning_rate": (1e-3, 2e-3)}))
    lines: list[str] = []
    for key, value in tree.items():
        block = list(_lines({key: value}, (), ""))
        lines += ["", *(f"# {line}" for line in block if line)] if key in OFF else block
    return HEAD + "\n".join(lines) + "\n"


def _lines(tree: Mapping[str, Any], path: tuple[str, ...], indent: str) -> Iterator[str]:
    """The lines of a mapping, each key with its description."""
    free = REPLICAS.grammar.keys_are_free(path)
    for key, value in tree.items():
        about = REPLICAS.grammar.at((*path, key)).get("description", "")
        block = isinstance(value, dict) and not free
        if block and not path:
            yield ""
        yield from _commented(f"{indent}{key}:{'' if block else ' ' + inline(value)}", about)
        if block:
            yield from _lines(value, (*path, key), indent + "  ")


def _commented(line: str, about: str) -> Iterator[str]:
    whole = f"{line}  # {about}" if about else line
    if len(whole) <= WIDTH:
        yield whole
    else:
        indent = line[: len(line) - len(line.lstrip())]
        yield from textwrap.wrap(about, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
        yield line
