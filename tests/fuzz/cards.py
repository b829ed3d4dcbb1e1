"""Cards: damaged ones, and a reading of their text that owes nothing to the loader."""

import os
import re
import unicodedata
from pathlib import Path

import yaml
from hypothesis import strategies as st

from tests.fuzz.damage import HOSTILE, MARKS, find, flipped, paths
from tests.runcard.cards import EVERY, FULL
from tests.runcard.mutations import values
from tfperf.runcard.dump import dump_card, to_tree
from tfperf.workloads.cards import load_card

TEXTS = (*EVERY.values(), FULL)
# keys whose text may be a path, and whose entries may be globs
FILES = {"pack", "extra", "source", "target", "table", "hdf5", "t0", "law", "tokenizer", "weights", "file"}
GLOBS = {"hdf5", "parquet", "lines", "npy"}
PLACE = r"(:\d+)?: .|--set( [^\n]*)?: .|\.\.\. and \d+ more$"


class Plain(yaml.SafeLoader):
    """YAML 1.2's core schema as its specification has it, but for 0o, 0x and leading zeros, which stay text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012


for _tag, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(0|[1-9][0-9]{0,98})",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
}.items():
    Plain.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"({_pattern})\\Z"), None)
Plain.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))
Plain.add_constructor("tag:yaml.org,2002:float", lambda loader, node: as_float(node.value))
Plain.add_constructor("tag:yaml.org,2002:bool", lambda loader, node: node.value.lower() == "true")


def as_float(text):
    # leading zeros and more than 100 digits: no number
    if (re.match(r"[-+]?0[0-9]", text) and re.fullmatch(r"[-+]?[0-9]+", text)) or len(text) > 100:
        return text
    return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))


def compare(path, *overrides):
    """A card that loads has each value that its text says, and comes back from its dump. Raises: UserError."""
    path = Path(path)
    try:
        card = load_card(path, overrides)
    except Exception as error:
        for line in getattr(error, "faults", ()):
            assert re.match(re.escape(str(path)) + PLACE if line.startswith(str(path)) else PLACE, line), line
            assert not any(unicodedata.category(c) in ("Cc", "Cs") for c in line), repr(line)
        raise
    tree, dumped = to_tree(card), dump_card(card)
    assert same(yaml.safe_load(dumped), tree) and same(yaml.load(dumped, Plain), tree), "YAML 1.1 and 1.2 differ"
    again = path.with_name("again.yaml")
    again.write_text(dumped, encoding="utf-8")
    assert load_card(again) == card, "its dump is another card"
    said = yaml.load(path.read_bytes().decode("utf-8-sig"), Plain)
    for one in overrides:
        key, _, text = one.partition("=")
        put(said, key.strip().split("."), yaml.load(text, Plain))
    for place in paths(said):
        held(tree, place, find(said, place, None), path.parent)


def put(tree, keys, value):
    """Set one value of a plain tree, as --set should."""
    for key in keys[:-1]:
        if isinstance(tree, list):
            tree = tree[int(key)]
        else:
            if tree.get(key) is None:
                tree[key] = {}
            tree = tree[key]
    if isinstance(tree, list):
        tree[int(keys[-1])] = value
    else:
        tree[keys[-1]] = value


def held(tree, place, said, folder):
    """Whether the card's tree has what the text says at a place."""
    missing = object()
    found = tree
    for key in place:
        found = found[key] if isinstance(found, dict | list) and (key in found or isinstance(key, int)) else missing
        if found is missing:
            assert said is None, f"{place}: {said!r} was passed over"
            return
    if isinstance(said, dict | list):
        assert isinstance(found, type(said)) or said in ([], {}), f"{place}: {said!r} became {found!r}"
    elif isinstance(said, str) and place[-1] in FILES and found != said:
        assert found == os.path.realpath(folder / said), f"{place}: {said!r} became {found!r}"
    elif isinstance(said, str) and GLOBS.intersection(place[-2:-1]) and found != said:
        assert found == os.path.join(os.path.realpath(folder), said), f"{place}: {said!r} became {found!r}"
    elif place == ("replicas",):
        first, last = (map(int, said.split("-"))) if isinstance(said, str) else (1, said)
        assert found in (f"{first}-{last}", last if first == 1 else None), f"{said!r} became {found!r}"
    elif said is not None:  # null stands for the default
        assert type(found) is type(said) or {type(found), type(said)} == {int, float}, f"{place}: {said!r}, {found!r}"
        assert found == said, f"{place}: {said!r} became {found!r}"


def same(a, b):
    """Whether two trees are equal, types of their scalars included."""
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def scalars(text):
    """(start, end) of each key and value in a text that is one word."""
    for value in values(yaml.compose(text, yaml.SafeLoader)):
        if isinstance(value.node, yaml.ScalarNode):
            yield value.node.start_mark.index, value.node.end_mark.index
        if value.key is not None:
            yield value.key.start_mark.index, value.key.end_mark.index


SCALARS = {text: tuple(scalars(text)) for text in TEXTS}
SOMETHING = st.one_of(
    st.sampled_from(HOSTILE), st.sampled_from(HOSTILE), st.integers(-5, 10**6).map(str), st.floats().map(repr),
    st.text(max_size=8),
)  # fmt: skip


@st.composite
def damaged(draw):
    """The bytes of a card to whose text one to three things were done."""
    text = draw(st.sampled_from(TEXTS))
    kind = draw(st.sampled_from(("words", "words", "words", "lines", "tree", "marks", "bytes")))
    if kind == "words":
        chosen = draw(st.lists(st.sampled_from(SCALARS[text]), min_size=1, max_size=3, unique=True))
        for start, end in sorted(chosen, reverse=True):
            word = text[start:end]
            new = draw(SOMETHING | st.just(word + "s") | st.just(word[:-1]) | st.just(word.upper()))
            text = text[:start] + new + text[end:]
    elif kind == "lines":
        text = "".join(_lines(draw, text.splitlines(keepends=True)))
    elif kind == "tree":
        flow = draw(st.sampled_from((None, True)))
        text = yaml.safe_dump(_tree(draw, yaml.load(text, Plain)), default_flow_style=flow)
    elif kind == "marks":
        at, mark = draw(st.integers(0, len(text))), draw(st.sampled_from(MARKS))
        text = text.replace("\n", mark) if draw(st.booleans()) and "\r" in mark else text[:at] + mark + text[at:]
    else:
        return draw(flipped(text.encode()))
    return text.encode("utf-8", "surrogatepass")


def _lines(draw, lines):
    for _ in range(draw(st.integers(1, 3))):
        at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match draw(st.sampled_from(("drop", "double", "swap", "indent", "move"))):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "indent":
                lines[at] = draw(st.sampled_from((" ", "  ", "\t", "- ", "# "))) + lines[at]
            case _:
                lines.insert(other, lines.pop(at))
    return lines


def _tree(draw, tree):
    for _ in range(draw(st.integers(1, 3))):
        *above, key = draw(st.sampled_from(list(paths(tree)) or [("x",)]))
        parent = tree
        for one in above:
            parent = parent[one]
        match draw(st.sampled_from(("value", "value", "value", "drop", "rename"))):
            case "value":
                parent[key] = _value(draw(SOMETHING))
            case "drop":
                parent.pop(key, None) if isinstance(parent, dict) else parent.pop(key)
            case _ if isinstance(parent, dict):
                parent[str(key)[:-1] + draw(st.sampled_from("sx_ "))] = parent.pop(key, 1)
    return tree


def _value(text):
    try:
        return yaml.load(text, Plain)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return text
