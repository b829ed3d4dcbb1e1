"""A function as XLA sees it: what it is given to compile, and what it makes of that, as HLO text."""

import hashlib
import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

MODULE = re.compile(r"^HloModule [^\s,]+")
NAME = re.compile(r"%[\w.-]+")
PLACE = re.compile(r", metadata=\{[^{}]*\}")  # in the source


class Lowering:
    """A tf.function(jit_compile=True), or one of its concrete functions, for some arguments.

    It may capture tensors and variables. ValueError where the function is not compiled with XLA.
    """

    def __init__(self, function: Any, *args: Any) -> None:
        if not hasattr(function, "experimental_get_compiler_ir"):
            import tensorflow as tf

            if not function.function_def.attr["_XlaMustCompile"].b:
                raise ValueError("optimized HLO: the function has no jit_compile=True")
            concrete = function  # only what is not concrete has a door to the compiler
            function = tf.function(lambda *given: concrete(*given), jit_compile=True, autograph=False)
        self._compiler: Callable[..., Any] = function.experimental_get_compiler_ir(*args)

    @cached_property
    def digest(self) -> str:
        """sha256 of what XLA is given, whatever its names and places in the source; takes a tenth of compiling.

        Large constants do not enter: they change no count of operations.
        """
        return hashlib.sha256(canonicalise(str(self._compiler(stage="hlo"))).encode()).hexdigest()

    def compile_hlo(self) -> str:
        """What XLA makes of it. Compiles anew, which takes as long as a first call."""
        return str(self._compiler(stage="optimized_hlo"))


def canonicalise(text: str) -> str:
    """HLO text with names numbered as they appear: those that TensorFlow gives carry counters."""
    numbers: dict[str, str] = {}
    bare = MODULE.sub("HloModule", PLACE.sub("", text))
    return NAME.sub(lambda found: numbers.setdefault(found[0], f"%{len(numbers)}"), bare)
