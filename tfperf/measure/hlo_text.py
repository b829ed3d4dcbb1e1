"""XLA's optimized HLO text, read into computations and instructions.

Every function raises ValueError for text that is cut off or makes no sense.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

ARRAY = re.compile(r"([a-z]\w*)\[([^\[\]]*)\](?:\{[^{}]*\})?")
BETWEEN_ARRAYS = re.compile(r"[(),\s]*")
DIMENSIONS = re.compile(r"(?:<=)?(\d{1,18})(?:,\s*(?:<=)?(\d{1,18}))*|")
ELEMENT = re.compile(r"(?:bf|[fsuc])(\d{1,3})(?:e\d+m\d+\w*)?")
SPECIAL = {"pred": 8, "token": 0, "opaque": 0}  # bits
HEADER = re.compile(r"(ENTRY\s+)?%?([\w.-]+)\s.*\{\s*$")
DEFINITION = re.compile(r"\s*(ROOT\s+)?%?([\w.-]+)\s*=\s*")
OPCODE = re.compile(r"\s*([a-z][a-z0-9-]*)\(")
OPERAND = re.compile(r"(?:.*[\s)])?%?([\w.-]+)", re.DOTALL)
STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/')
TRIPS = re.compile(r'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"(\d{1,18})"')
PARENTHESIS = re.compile(r"[()]")
OPENING, CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Array:
    """One array of a result."""

    bits: int
    dims: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Size in memory, packed where an element is less than a byte."""
        return -(-self.size * self.bits // 8)


@dataclass(frozen=True)
class Instruction:
    """One line: `name = arrays opcode(inside), attributes`; strings are blanked in all but `raw`."""

    name: str
    arrays: tuple[Array, ...]
    opcode: str
    inside: str
    attributes: str
    raw: str

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """Names of the operands."""
        if self.opcode in ("constant", "parameter") or not self.inside.strip():
            return ()
        return tuple(_match(OPERAND, part.strip())[1] for part in _split(self.inside))

    @property
    def bytes(self) -> int:
        """Size of the result."""
        return sum(array.bytes for array in self.arrays)

    @property
    def dims(self) -> tuple[int, ...]:
        """Dimensions of the first array of the result."""
        if not self.arrays:
            raise ValueError(f"HLO: {self.name} is no array")
        return self.arrays[0].dims

    @property
    def size(self) -> int:
        """Elements of the first array of the result."""
        return math.prod(self.dims)

    def get_numbers(self, key: str) -> list[int]:
        """An attribute like lhs_batch_dims={0,1}; empty where there is none."""
        found = re.search(rf"\b{key}=\{{([\d,\s]*)\}}", self.attributes)
        return [int(n) for n in re.findall(r"\d{1,18}", found[1])] if found else []

    def list_called(self, *keys: str) -> list[str]:
        """Computations in attributes like calls=%f or branch_computations={%f, %g}."""
        names = []
        for key in keys:
            found = re.search(rf"\b{key}=(?:\{{([^{{}}]*)\}}|([^\s,{{}}]+))", self.attributes)
            names += [n.strip().lstrip("%") for n in (found[1] or found[2] or "").split(",")] if found else []
        return names

    @property
    def trips(self) -> int:
        """How often a loop runs; 1 where XLA does not know."""
        found = TRIPS.search(self.raw)
        return int(found[1]) if found else 1


class Computation:
    """Instructions by name, in order; the root makes the result."""

    def __init__(self, name: str, instructions: dict[str, Instruction], root: str) -> None:
        self.name, self.instructions, self.root = name, instructions, root

    def get_operand(self, instruction: Instruction, index: int) -> Instruction:
        """The instruction behind an operand."""
        if index >= len(instruction.operands):
            raise ValueError(f"HLO: {self.name}: {instruction.name} has no operand {index}")
        return self.instructions[instruction.operands[index]]

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """The instructions that have one as operand."""
        users: dict[str, list[Instruction]] = {}
        for instruction in self.instructions.values():
            for name in dict.fromkeys(instruction.operands):
                users.setdefault(name, []).append(instruction)
        return users

    def get_parameter(self, number: int) -> Instruction:
        """The parameter of a number."""
        for instruction in self.instructions.values():
            if instruction.opcode == "parameter" and instruction.inside.strip() == str(number):
                return instruction
        raise ValueError(f"HLO: {self.name} has no parameter {number}")


@dataclass(frozen=True)
class Module:
    """All computations, and the name of the one that is run."""

    computations: dict[str, Computation]
    entry: str

    def __getitem__(self, name: str) -> Computation:
        if name not in self.computations:
            raise ValueError(f"HLO: there is no computation {name}")
        return self.computations[name]


def parse(text: str) -> Module:
    """Read a whole module.

    >>> module = parse("ENTRY %main {\\n %x = f32[4] parameter(0)\\n ROOT %y = f32[4] negate(%x)\\n}\\n")
    >>> root = module["main"].instructions["y"]
    >>> root.opcode, root.operands, root.bytes
    ('negate', ('x',), 16)
    """
    computations: dict[str, Computation] = {}
    entry = ""
    for header, lines in _split_computations(text):
        is_entry, name = _match(HEADER, header).groups()
        if name in computations or (is_entry and entry):
            raise ValueError(f"HLO: {name} is defined twice, or is a second ENTRY")
        computations[name] = _parse_computation(name, lines)
        entry = name if is_entry else entry
    if not entry:
        raise ValueError("HLO: no ENTRY computation; is this optimized HLO text, and all of it?")
    return Module(computations, entry)


def _blank(found: re.Match[str]) -> str:
    """As many characters without meaning, so that positions stay."""
    text = found[0]
    return '"' + "_" * (len(text) - 2) + '"' if text[0] == '"' else " " * len(text)


def _split_computations(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each computation: its header and its statements, blanked and raw; a statement ends where its brackets close."""
    header, statements = "", list[tuple[str, str]]()
    start = depth = position = 0
    masked = STRING_OR_COMMENT.sub(_blank, text)
    for line in masked.splitlines(keepends=True):
        start, position = (position if depth == 0 else start), position + len(line)
        if not header:
            if " = " in line and not line.startswith("HloModule"):
                raise ValueError(f"HLO: instruction outside any computation: {line.strip()[:80]}")
            header = line if line.rstrip().endswith("{") else ""
        elif depth == 0 and line.strip() == "}":
            yield header, statements
            header, statements = "", []
        else:
            depth += sum(map(line.count, OPENING)) - sum(map(line.count, CLOSING))
            if depth == 0 and line.strip():
                statements.append((masked[start:position], text[start:position]))
    if header:
        raise ValueError(f"HLO: the text ends within {header.strip()[:80]}")


def _parse_computation(name: str, statements: list[tuple[str, str]]) -> Computation:
    instructions: dict[str, Instruction] = {}
    root = ""
    for masked, raw in statements:
        is_root, instruction = _parse_instruction(masked, raw)
        if instruction.name in instructions or (is_root and root):
            raise ValueError(f"HLO: {name}: {instruction.name} is defined twice, or is a second ROOT")
        # operands come first, in every text that XLA writes: nothing can go in circles
        if unknown := [operand for operand in instruction.operands if operand not in instructions]:
            raise ValueError(f"HLO: {name}: {instruction.name} needs {unknown[0]}, which is not defined before it")
        instructions[instruction.name] = instruction
        root = instruction.name if is_root else root
    if not root:
        raise ValueError(f"HLO: {name} has no ROOT")
    return Computation(name, instructions, root)


def _parse_instruction(masked: str, raw: str) -> tuple[bool, Instruction]:
    head = _match(DEFINITION, masked, whole=False)
    start = head.end()
    one = ARRAY.match(masked, start)
    end = one.end() if one else _find_closing(masked, start)
    opcode = _match(OPCODE, masked, end, whole=False)
    close = _find_closing(masked, opcode.end() - 1)
    instruction = Instruction(
        head[2], _parse_arrays(masked[start:end]), opcode[1], masked[opcode.end() : close - 1], masked[close:], raw
    )
    return head[1] is not None, instruction


def _parse_arrays(text: str) -> tuple[Array, ...]:
    _match(BETWEEN_ARRAYS, ARRAY.sub("", text))
    found = []
    for element, dims in ARRAY.findall(text):
        _match(DIMENSIONS, dims)
        bits = SPECIAL[element] if element in SPECIAL else int(_match(ELEMENT, element)[1])
        found.append(Array(bits, tuple(int(n) for n in re.findall(r"\d+", dims))))
    return tuple(found)


def _find_closing(text: str, start: int) -> int:
    """Position after the bracket that closes the one at `start`."""
    depth = 0
    for found in PARENTHESIS.finditer(text, start) if text[start : start + 1] == "(" else ():
        depth += 1 if found[0] == "(" else -1
        if depth == 0:
            return found.end()
    raise ValueError(f"HLO: cannot be read: {text.strip()[:80]}")


def _split(text: str) -> Iterator[str]:
    """Parts between commas that lie within no bracket."""
    depth = start = 0
    for found in re.finditer(r"[,(\[{)\]}]", text):
        if found[0] == ",":
            if depth == 0:
                yield text[start : found.start()]
                start = found.end()
        else:
            depth += 1 if found[0] in OPENING else -1
    yield text[start:]


def _match(pattern: re.Pattern[str], text: str, position: int = 0, whole: bool = True) -> re.Match[str]:
    found = pattern.fullmatch(text, position) if whole else pattern.match(text, position)
    if found is None:
        raise ValueError(f"HLO: cannot be read: {text[position:].strip()[:80]}")
    return found
