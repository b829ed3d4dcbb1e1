"""What code is called: functions by imperative verbs, each class by a name of its own; where errors and arrays are."""

import ast
import builtins
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# gone, since each had several meanings, or left the reader guessing whether it is a value, a flag or a call
RETIRED = frozenset((
    "joined", "taken", "gathered", "opened", "shown", "begun", "arranged", "counted", "made_on", "Wish", "judge",
    "look", "hands", "tie", "tell", "Home", "Kept", "Within", "Descent", "Plan", "Compiled", "precisions",
    "carry_out", "start_weights", "atomic_write", "find_homes",
))  # fmt: skip
FOREIGN = {("tell", "tfperf/data/cache.py"): "a method of files"}
NAME_ARRAYS = {  # files that may have types of arrays by NumPy's own name
    "tfperf/arrays.py": "names them for all others", "benchmarks/plain_keras.py": "has nothing of tfperf",
    "benchmarks/peer/problem.py": "is read where the peer is installed, without tfperf",
    "benchmarks/peer/n3fit_data.py": "runs there",
}  # fmt: skip
VERBS = frozenset((
    "ablate", "acquire", "add", "adopt", "advance", "agree", "align", "allocate", "analyse", "answer", "append",
    "apply", "arrange", "attend", "convolve", "feed", "hide", "map", "normalize", "penalise", "renormalize", "reseed",
    "cast", "reshape", "unfold", "unroll", "widen",
    "ask", "assign", "attach", "attribute", "average", "begin", "bind", "blank", "break", "build", "call",
    "canonicalise", "capture", "change", "charge", "check", "choose", "claim", "clean", "clear", "clip", "close",
    "collect", "combine", "comment", "commit", "compare", "compile", "complain", "complete", "compress", "compute",
    "concatenate", "conclude", "configure", "constrain", "contract", "convert", "copy", "count", "create", "cut",
    "decay", "decide", "decode", "defer", "deliver", "describe", "digest", "discard", "distinguish", "divide",
    "download", "drain", "draw", "drop", "dump", "duplicate", "empty", "encode", "end", "escape", "estimate",
    "evaluate", "evolve", "exchange", "expand", "explain", "exponentiate", "export", "extend", "extract",
    "factorise", "fail", "fill", "filter", "find", "finish", "fit", "flatten", "flush", "fold", "forget", "format",
    "gather", "generate", "get", "give", "group", "guard", "halt", "handle", "hash", "ignore", "import", "index",
    "inflate", "initialize", "inline", "insert", "install", "integrate", "interpolate", "intersect", "invert",
    "invoke", "iterate", "join", "keep", "kill", "label", "learn", "lease", "leave", "let", "limit", "link", "list",
    "listen", "load", "locate", "lock", "log", "loop", "lose", "make", "mark", "match", "measure", "mend", "merge",
    "model", "move", "multiply", "name", "note", "number", "offer", "open", "optimize", "pad", "parse", "pass",
    "pause", "place", "plan", "point", "pop", "predict", "prepare", "print", "probe", "profile", "project", "prove",
    "pull", "put", "quarantine", "quote", "raise", "read", "receive", "recommend", "recompute", "record", "recover",
    "reduce", "refine", "refuse", "register", "regularise", "release", "remake", "remove", "render", "reorder",
    "repeat", "replace", "represent", "request", "rescale", "reset", "resolve", "restart", "restore", "restrict",
    "resume", "retire", "rotate", "round", "run", "sample", "save", "say", "scale", "scan", "score", "search",
    "select", "send", "serve", "set", "settle", "share", "shift", "shorten", "show", "shrink", "silence",
    "snapshot", "solve", "sort", "speed", "split", "spread", "square", "stack", "start", "step", "stop", "store",
    "strip", "submit", "subtract", "suggest", "sum", "summarise", "survey", "suspect", "sweep", "switch", "sync",
    "synthesise", "take", "time", "trace", "train", "translate", "trim", "truncate", "try", "unfreeze", "unguard",
    "unpack", "update", "use", "validate", "verify", "veto", "wait", "walk", "warm", "warn", "watch", "weigh",
    "whiten", "wrap", "write", "zero",
))  # fmt: skip
PREDICATES = {"is", "has", "can", "may", "needs", "uses", "are", "varies", "covers", "serves", "contains", "to", "on"}
KNOWN = {
    "main": "entry points", "call": "Keras", "test_step": "Keras", "get_config": "Keras", "lr_adjust": "Keras",
    "inner_loop": "Keras",
    "_all_reduce_sum_gradients": "Keras", "_distributed_tf_update_step": "Keras", "isatty": "of files",
    "fileno": "of files", "teardown": "Dask", "phase": "public", "memory": "public", "largest_batch": "public",
    "input_report": "public", "ensemble": "public", "mean": "public", "std": "public", "quantiles": "public",
    "from_dict": "a constructor",
    "emit": "logging", "handleError": "logging",
    "from_json": "a constructor", "clock": "of programs that carry a profile's truth",
}  # fmt: skip


@cache
def trees():
    every = sorted(path for room in ("tfperf", "benchmarks", "tools") for path in (ROOT / room).rglob("*.py"))
    assert len(every) > 350
    return [(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))) for path in every]


def is_value(node):
    """Whether a function is read as a value, or its name is a word of the command line."""
    names = {ast.unparse(one).partition("(")[0].rpartition(".")[2] for one in node.decorator_list}
    return names & {"property", "cached_property", "command", "group", "register_benchmark", "setter"}


def functions(tree):
    """Those of the module and of its classes."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("__") and not is_value(node):
            yield node


def is_imperative(name):
    return name in KNOWN or name.lstrip("_").partition("_")[0] in VERBS | PREDICATES


def test_functions_begin_with_an_imperative_verb():
    wrong = [
        f"{path}:{f.lineno}: {f.name}" for path, tree in trees() for f in functions(tree) if not is_imperative(f.name)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["joined", "_row", "of", "weights", "chi2_rows", "best"])
def test_nouns_participles_and_prepositions_are_no_names_of_functions(name):
    assert not is_imperative(name)


def identifiers(node):
    match node:
        case ast.FunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.Name():
            return [node.id]
        case ast.Attribute():
            return [node.attr]
        case ast.arg():
            return [node.arg]
        case ast.alias():
            return [node.asname or node.name]
    return []


def test_retired_names_do_not_come_back():
    found = [
        f"{path}:{node.lineno}: {name}"  # type: ignore[attr-defined]
        for path, tree in trees() for node in ast.walk(tree) for name in identifiers(node)
        if name.lstrip("_") in RETIRED and (name, path) not in FOREIGN
    ]  # fmt: skip
    assert not found, "\n".join(found)


def test_no_class_name_is_defined_twice():
    """An underscore in front makes no other word of it."""
    places = defaultdict(list)
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name.lstrip("_")].append(f"{path}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_types_of_arrays_are_named_in_one_module():
    every = {path for path, tree in trees() for node in ast.walk(tree) if "NDArray" in identifiers(node)}
    assert every == set(NAME_ARRAYS)


def is_error(name):
    return name.endswith(("Error", "Exception"))


def list_errors(every):
    """Path and name of each class of tfperf that derives from an exception, as far as names tell."""
    bases = {
        (path, node.name): {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
        for path, tree in every if path.startswith("tfperf/")
        for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    }  # fmt: skip
    known = {name for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)}
    found = set()
    while new := {key for key, names in bases.items() if names & known or any(map(is_error, names))} - found:
        found |= new
        known |= {name for _, name in new}
    return found


def test_public_errors_are_those_of_errors_py():
    errors = list_errors(trees())
    assert ("tfperf/errors.py", "LostError") in errors and ("tfperf/runcard/tree.py", "_TooDeepError") in errors
    elsewhere = [f"{path}: {name}" for path, name in sorted(errors) if name[0] != "_" and path != "tfperf/errors.py"]
    assert not elsewhere, "\n".join(elsewhere)
