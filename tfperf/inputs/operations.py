"""What the operations of a function say of it: a state, chance, Python, files."""

from collections.abc import Iterable

from tensorflow.python.framework import op_def_registry

PYTHON = {"PyFunc", "EagerPyFunc", "PyFuncStateless"}
# what reads a state but does not change it, hands data on, or has a state that a pass begins anew
READS = (
    "VarHandleOp",
    "ReadVariableOp",
    "Placeholder",
    "Iterator",
    "Optional",
    "Assert",
    "CheckNumerics",
    "Print",
    "ReadFile",
    "Table",
)
WRITES = ("LookupTableInsert", "LookupTableImport", "LookupTableRemove")
# in names of those that draw; the stateful ones among them draw anew each time
CHANCE = ("Random", "Multinomial", "TruncatedNormal", "SampleDistorted", "Rng", "StatefulUniform", "StatefulStandard")
FILES = ("ReadFile", "TextLineDataset", "TFRecordDataset", "FixedLengthRecordDataset", "LMDBDataset", "WholeFileReader")


def find_stateful(kinds: Iterable[str]) -> list[str]:
    """Those operations that TensorFlow says have a state: they depend on more than their inputs, or leave something."""
    found = []
    for kind in kinds:
        definition = op_def_registry.get(kind)
        known = definition is not None and definition.is_stateful
        passive = any(word in kind for word in READS) and not kind.startswith(WRITES)
        if known and not passive and "Dataset" not in kind and "PartitionedCall" not in kind:
            found.append(kind)
    return sorted(found)


def is_free_of_state(kinds: Iterable[str]) -> bool:
    """Whether TensorFlow takes a function for one without a state, which it may run many times at once.

    It counts also what only reads a state, such as a variable; what functions call is looked at by itself.

    >>> is_free_of_state(["AddV2", "ReadFile", "StatefulPartitionedCall"]), is_free_of_state(["ReadVariableOp"])
    (True, False)
    """
    known = ((kind, op_def_registry.get(kind)) for kind in kinds if kind not in ("Assert", "StatefulPartitionedCall"))
    return not any(definition is not None and definition.is_stateful for _, definition in known)


def find_random(kinds: Iterable[str]) -> list[str]:
    """Those that draw other numbers each time they run; not those that draw by a seed that they are given.

    >>> find_random(["RandomUniform", "StatelessRandomUniformV2", "RandomShuffle", "AddV2"])
    ['RandomShuffle', 'RandomUniform']
    """
    return [kind for kind in find_stateful(kinds) if any(word in kind for word in CHANCE)]


def find_file_reads(kinds: Iterable[str]) -> list[str]:
    """Those that read files by TensorFlow; what Python reads is not seen.

    >>> find_file_reads(["TFRecordDatasetV2", "DecodeJpeg", "ReadFile"])
    ['ReadFile', 'TFRecordDatasetV2']
    """
    return sorted(kind for kind in kinds if kind.startswith(FILES))
