"""What disks and attackers do to files that were right."""

import json
from copy import deepcopy

from hypothesis import strategies as st

LONG = 5000
# values that a key was not made for, as YAML text; JSON's are among them
HOSTILE = (
    "", "~", "null", "true", "no", "yes", "on", "0", "-0", "-0.0", "-1", "1", "0.5", "1e-400", "1e400", "-1e400",
    "1e308", ".inf", "-.inf", ".nan", "NaN", "inf", "1e3", "1E+2", "+7", "010", "0x10", "0o7", "0b1", "1_000", "1:30",
    "1.", ".5", "4294967296", "9223372036854775808", "1" + "0" * 99, "1" + "0" * 4999, "2024-01-31", "12:30:45", "[]",
    "{}", "[1]", "[1, 2, 3]",
    "[[1]]", "{a: 1}", "{a: {b: {c: 1}}}", "[" * 12 + "]" * 12, "'1'", '"1"', "1-3", "3-1", "1-100000",
    "1-100001", "auto", "none", "../..", "/", "/dev/zero", "'\\0'", '"\\0"', '"\\x1b[31m"', '"\\ud800"', '"\\u202e"',
    '"\\u2028"', "\u202e", "\u2028", "\x85", "\x07", "\x7f", "\ufeff", "\u0661", "\uff11", "\U0001f600", "e\u0301",
    "*a", "&a 1", "!!float 1", "!!python/object/apply:os.system [true]", "<<", "<<: {a: 1}", "? a", "- 1", "a: 1",
    "|\n  1", ">\n  1", "# 1", "'", '"', "{", "[", "%", "@", "`", "---", "...", "x" * LONG, "[" + "1, " * LONG + "1]",
)  # fmt: skip
MARKS = (
    "\ufeff", "\r\n", "\r", "\t", "\x00", "\x1b[2J", "\u202e", "\u2029", "\x85", "---\n", "...\n", "%YAML 1.1\n",
    "\n\n",
)  # fmt: skip
BYTES = (0, 1, 9, 10, 13, 27, 34, 127, 128, 255)
DEEDS = ("replace", "replace", "replace", "remove", "double", "rename", "move")


class Damaged(bytes):
    """Bytes that are told by what was done to them."""

    edits: object

    def __repr__(self) -> str:
        return f"apply_edits(good, {self.edits!r})"


def flipped(content: bytes, places=()):
    """The bytes with one to three things done to them; `places`: where damage tells more than elsewhere."""
    somewhere = st.integers(0, max(0, len(content) - 1))
    where = st.one_of(somewhere, st.sampled_from(places)) if places else somewhere
    edit = st.one_of(
        st.tuples(st.just("flip"), where, st.integers(0, 7)),
        st.tuples(st.just("set"), where, st.sampled_from(BYTES) | st.integers(0, 255)),
        st.tuples(st.just("zeros"), where, st.sampled_from((1, 4, 8, 64, 512, 4096))),
        st.tuples(st.just("ones"), where, st.sampled_from((2, 4, 8))),
        st.tuples(st.just("drop"), where, st.sampled_from((1, 2, 8, 512))),
        st.tuples(st.just("double"), where, st.sampled_from((1, 2, 8, 512))),
        st.tuples(st.just("cut"), where, st.just(0)),
        st.tuples(st.just("swap"), st.just(0), somewhere),
    )
    return st.lists(edit, min_size=1, max_size=3).map(lambda edits: apply_edits(content, edits))


def apply_edits(content: bytes, edits) -> bytes:
    """The bytes after these edits, one after the other."""
    for kind, at, value in edits:
        if at < len(content):
            content = _edited(content, kind, at, value)
    damaged = Damaged(content)
    damaged.edits = edits
    return damaged


def _edited(content: bytes, kind: str, at: int, value: int) -> bytes:
    before, run, after = content[:at], content[at : at + value], content[at + value :]
    match kind:
        case "flip":
            return before + bytes([content[at] ^ 1 << value]) + content[at + 1 :]
        case "set":
            return before + bytes([value]) + content[at + 1 :]
        case "zeros":
            return before + bytes(len(run)) + after
        case "ones":
            return before + b"\xff" * len(run) + after
        case "drop":
            return before + after
        case "double":
            return before + run + run + after
        case "swap":  # value: another place, up to which all is put behind the rest
            return content[value:] + content[:value]
    return before


VALUES = st.sampled_from((
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, 0.0, -0.0, 1.0, 0.5, 1e308, float("inf"), float("nan"), "", "1",
    "x" * LONG, "a" * 64, "A" * 64, "\x00", "\ud800", [], {}, [[]], [1, 1], [0], [-1], [1.0], ["1"], [None], {"a": 1},
    list(range(1, 40)), {"": None},
))  # fmt: skip


def paths(tree, path=()):
    """The path of each value below a tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from paths(value, (*path, key))


@st.composite
def edited(draw, text: str):
    """The value of a JSON text with one to three of its values replaced, removed, doubled or renamed."""
    tree = json.loads(text)
    for _ in range(draw(st.integers(1, 3))):
        every = list(paths(tree))
        if not every:
            break
        path = draw(st.sampled_from(every))
        parent = tree
        for key in path[:-1]:
            parent = parent[key]
        key, kind = path[-1], draw(st.sampled_from(DEEDS))
        if kind == "replace":
            parent[key] = deepcopy(draw(VALUES | st.integers(-3, 10**6) | st.floats()))
        elif kind == "remove":
            del parent[key]
        elif kind == "double" and isinstance(parent, list):
            parent.insert(key, parent[key])
        elif kind == "rename" and isinstance(parent, dict):
            parent[draw(st.sampled_from((key.upper(), key + "s", "", "more", "__class__")))] = parent.pop(key)
        else:
            other = draw(st.sampled_from(every))
            parent[key] = find(tree, other, parent[key])
    return tree


def find(tree, path, default):
    """A copy of the value at a path, `default` where there is none any more."""
    for key in path:
        try:
            tree = tree[key]
        except (KeyError, IndexError, TypeError):
            return default
    return json.loads(json.dumps(tree))
