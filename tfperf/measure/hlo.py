"""FLOPs and bytes of a compiled function, counted from its optimized HLO text; TensorFlow offers no cost analysis.

The conventions are those of XLA's own HloCostAnalysis: a matrix product takes 2 M N K FLOPs, an element-wise
instruction one per element of its result, a reduction one per element that goes in; tanh, exp, log, pow and their like
are counted apart, by evaluations. Bytes are what kernels exchange with memory and caches: every instruction outside
fusions reads its operands and writes its result, within a fusion nothing moves. Slices, gathers and updates in place
move only what they touch. A fusion of which only a part is needed counts in full.
"""

import math
import re
from collections.abc import Container
from contextlib import suppress

from tfperf.measure.hlo_convolution import LIBRARY, count_convolution
from tfperf.measure.hlo_text import Computation, Instruction, Module, parse
from tfperf.measure.roofline import Work

OPCODES = """
elementwise: abs add and ceil clamp compare complex convert count-leading-zeros divide floor imag is-finite maximum
elementwise: minimum multiply negate not or popcnt real reduce-precision remainder round-nearest-afz round-nearest-even
elementwise: select shift-left shift-right-arithmetic shift-right-logical sign subtract xor
transcendental: atan2 cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic power rsqrt sine sqrt
transcendental: tan tanh
moves: bitcast-convert broadcast concatenate copy copy-start dynamic-slice dynamic-update-slice gather iota pad reshape
moves: reverse rng rng-bit-generator rng-get-and-update-state slice sort transpose
free: add-dependency after-all async-done async-update bitcast constant copy-done get-tuple-element opt-barrier
free: parameter partition-id replica-id tuple
"""
KIND = {
    opcode: kind.rstrip(":") for kind, *opcodes in map(str.split, OPCODES.strip().splitlines()) for opcode in opcodes
}
PARTS = frozenset(["dynamic-slice", "gather", "slice"])  # read as much of their first operand as they return
VIEWS = frozenset(["bitcast", "reshape"])
# where the computations are named that run as part of an instruction
CALLS = {
    "async-start": ("calls",), "call": ("to_apply",), "fusion": ("calls",), "while": ("body", "condition"),
    "conditional": ("branch_computations", "true_computation", "false_computation"),
}  # fmt: skip
DEEPEST = 100
MATRIX_PRODUCT = re.compile(r'custom_call_target="[^"]*(?:matmul|gemm)', re.IGNORECASE)


def count_work(text: str | Module, computation: str | None = None) -> Work:
    """Work of one run of a computation, with all that it calls; None: the entry.

    Loops count as often as they are known to run, else once; of a conditional, the branch with most FLOPs.
    `instructions`: kernels by opcode, a fusion being one. ValueError for text that is damaged or holds an instruction
    with no rule here.
    """
    module = parse(text) if isinstance(text, str) else text
    return _WorkCounter(module).count_computation(computation.lstrip("%") if computation else module.entry)


def count_instructions(module: Module, names: Container[str] | None = None) -> dict[str, Work]:
    """Work of one execution of each instruction, by its name: of those that move data or compute, and have a rule.

    names: of the instructions that are wanted; None: all.
    """
    counter, out = _WorkCounter(module), dict[str, Work]()
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            if KIND.get(instruction.opcode) != "free" and (names is None or instruction.name in names):
                with suppress(ValueError):
                    out[instruction.name] = counter.count_instruction(computation, instruction)
    return out


def find_loop_body(text: str | Module) -> str:
    """The body of the outermost while loop with most work in one turn; ValueError where there is no loop."""
    module = parse(text) if isinstance(text, str) else text
    bodies, seen, todo = list[str](), set[str](), [module.entry]
    while todo:
        name = todo.pop()
        for instruction in () if name in seen else module[name].instructions.values():
            if instruction.opcode == "while":
                bodies += instruction.list_called("body")
            elif instruction.opcode in CALLS:
                todo += _list_called(instruction)
        seen.add(name)
    if not bodies:
        raise ValueError("HLO: there is no while loop")
    counter = _WorkCounter(module)
    return max(bodies, key=lambda name: _get_cost(counter.count_computation(name)))


def _get_cost(work: Work) -> tuple[float, float]:
    return work.flops, work.bytes


def _list_called(instruction: Instruction) -> list[str]:
    called = instruction.list_called(*CALLS[instruction.opcode])
    if not called:
        raise ValueError(f"HLO: {instruction.name}: calls nothing")
    return called


class _WorkCounter:
    """Adds up computations, each once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.done: dict[tuple[str, bool], Work] = {}
        self.depth = 0

    def count_computation(self, name: str, fused: bool = False) -> Work:
        """One run; of what is fused, arithmetic alone."""
        if (name, fused) not in self.done:
            if self.depth > DEEPEST:
                raise ValueError(f"HLO: {name}: calls itself, or calls nest too deeply")
            self.depth += 1
            try:
                computation = self.module[name]
                works = [self.count_instruction(computation, i, fused) for i in computation.instructions.values()]
            finally:
                self.depth -= 1
            self.done[name, fused] = sum(works, Work(0, 0))
        return self.done[name, fused]

    def count_instruction(self, computation: Computation, instruction: Instruction, fused: bool = False) -> Work:
        """One execution, with all that it calls."""
        opcode = instruction.opcode
        if opcode in CALLS:
            called = _list_called(instruction)
            works = [self.count_computation(name, fused or opcode == "fusion") for name in called]
            work = max(works, key=_get_cost) if opcode == "conditional" else sum(works, Work(0, 0)) * instruction.trips
            if opcode != "fusion" or fused:
                return work
            moved = _count_fusion_bytes(computation, instruction, self.module[called[0]])
        else:
            work = _count_arithmetic(computation, instruction)
            if fused or KIND.get(opcode) == "free":
                return work
            moved = _count_bytes(computation, instruction)
        return work + Work(0, moved, instructions={opcode: 1})


def _count_arithmetic(computation: Computation, instruction: Instruction) -> Work:
    opcode = instruction.opcode
    match KIND.get(opcode):
        case "elementwise":
            return Work(instruction.size, 0)
        case "transcendental":
            return Work(0, 0, transcendental=instruction.size)
        case "moves" | "free":
            return Work(0, 0)
    if opcode == "dot" or (opcode == "custom-call" and MATRIX_PRODUCT.search(instruction.raw)):
        flops = (_count_dot if opcode == "dot" else _count_custom_product)(computation, instruction)
        return Work(flops, 0, products=flops)
    if opcode == "convolution" or (opcode == "custom-call" and LIBRARY.search(instruction.raw)):
        flops = count_convolution(computation, instruction)
        return Work(flops, 0, products=flops)
    match opcode:
        case "reduce":
            inputs = range(len(instruction.operands) // 2)
            return Work(sum(computation.get_operand(instruction, i).size for i in inputs), 0)
        case "reduce-window":
            return Work(_count_window_elements(computation, instruction), 0)
        case "scatter":
            return Work(sum(i.size for i in _list_updates(computation, instruction)), 0)
    raise ValueError(f"HLO: {instruction.name}: there is no rule to count {opcode}")


def _count_dot(computation: Computation, instruction: Instruction) -> int:
    """2 M N K for each batch; the sizes have to agree."""
    sizes: dict[str, list[int]] = {}
    sides = [computation.get_operand(instruction, i) for i in (0, 1)]
    for side, operand in zip(("lhs", "rhs"), sides, strict=True):
        for kind in ("batch", "contracting"):
            wanted = instruction.get_numbers(f"{side}_{kind}_dims")
            if any(i >= len(operand.dims) for i in wanted):
                raise ValueError(f"HLO: {instruction.name}: {side} has no dimensions {wanted}")
            sizes[side + kind] = [operand.dims[i] for i in wanted]
    inner, batch = math.prod(sizes["lhscontracting"]), math.prod(sizes["lhsbatch"])
    matched = sizes["lhscontracting"] == sizes["rhscontracting"] and sizes["lhsbatch"] == sizes["rhsbatch"]
    if not matched or sides[0].size * sides[1].size != instruction.size * inner**2 * batch:
        raise ValueError(f"HLO: {instruction.name}: sizes of the product do not match")
    return 2 * instruction.size * inner


def _count_custom_product(computation: Computation, instruction: Instruction) -> int:
    """2 M N K of a library call that gets both factors first, whichever of them it transposes."""
    sides = [computation.get_operand(instruction, i) for i in (0, 1)]
    batch = min(math.prod(s.dims[:-2]) for s in sides)
    size = sides[0].size * sides[1].size
    inner = math.isqrt(size // max(1, instruction.size * batch))
    if inner**2 * instruction.size * batch != size:
        raise ValueError(f"HLO: {instruction.name}: sizes of the product do not match")
    return 2 * instruction.size * inner


def _count_window_elements(computation: Computation, instruction: Instruction) -> int:
    """Elements that go into all windows; padding between overlapping windows counts as elements."""
    operand = computation.get_operand(instruction, 0)
    found = {key: re.search(rf"\b{key}=([\dx]+)", instruction.attributes) for key in ("size", "stride")}
    ones = "x".join("1" * len(operand.dims))
    sizes, strides = (re.findall(r"\d+", f[1] if f else ones) for f in found.values())
    if not len(operand.dims) == len(instruction.dims) == len(sizes) == len(strides):
        raise ValueError(f"HLO: {instruction.name}: its window has not the dimensions of its operand")
    per_axis = [
        min(given, made * int(size)) if int(stride) >= int(size) else made * int(size)
        for given, made, size, stride in zip(operand.dims, instruction.dims, sizes, strides, strict=True)
    ]
    return math.prod(per_axis) * (len(instruction.operands) // 2)


def _list_updates(computation: Computation, scatter: Instruction) -> list[Instruction]:
    """What a scatter of n arrays adds: its operands are n arrays, the indices, n updates."""
    arrays = len(scatter.operands) // 2
    return [computation.get_operand(scatter, i) for i in range(arrays + 1, 2 * arrays + 1)]


def _count_bytes(computation: Computation, instruction: Instruction) -> int:
    """Read and written by an instruction that is a kernel of its own."""
    operands = [computation.instructions[name] for name in dict.fromkeys(instruction.operands)]
    if instruction.opcode in PARTS:
        return 2 * instruction.bytes + sum(o.bytes for o in operands[1:])
    if instruction.opcode == "dynamic-update-slice":
        return computation.get_operand(instruction, 1).bytes + sum(o.bytes for o in operands[1:])
    if instruction.opcode == "scatter":  # reads and writes the places, reads the updates and their indices
        updates = sum(i.bytes for i in _list_updates(computation, instruction))
        return 3 * updates + computation.get_operand(instruction, len(instruction.operands) // 2).bytes
    moved = instruction.bytes + sum(o.bytes for o in operands)
    # the result of a copy-start names what is copied, too
    return moved - sum(o.bytes for o in operands) if instruction.opcode == "copy-start" else moved


def _count_fusion_bytes(computation: Computation, fusion: Instruction, inner: Computation) -> int:
    read = 0
    for number, name in enumerate(fusion.operands):
        parameter = inner.get_parameter(number)
        read += min(computation.instructions[name].bytes, _count_read_bytes(inner, parameter))
    return read + _count_written_bytes(inner)


def _count_read_bytes(inner: Computation, parameter: Instruction) -> int:
    """How much of a parameter a fusion needs: parts where only parts are taken, else all of it."""
    read, todo = 0, [parameter.name]
    while todo:
        name = todo.pop()
        users = inner.users.get(name, [])
        if name == inner.root or not users:
            return parameter.bytes
        for user in users:
            if user.opcode in VIEWS:
                todo.append(user.name)
            elif user.operands.index(name) > 0 or user.operands.count(name) > 1:
                return parameter.bytes
            elif user.opcode in PARTS:
                read += user.bytes
            elif user.opcode == "scatter":
                read += sum(i.bytes for i in _list_updates(inner, user))
            elif user.opcode != "dynamic-update-slice":
                return parameter.bytes
    return read


def _count_written_bytes(inner: Computation) -> int:
    """What a fusion writes: of an update in place, the update."""
    written, todo = 0, [inner.root]
    while todo:
        instruction = inner.instructions[todo.pop()]
        if instruction.opcode == "tuple":
            todo += instruction.operands
        elif instruction.opcode in VIEWS:
            todo.append(inner.get_operand(instruction, 0).name)
        elif instruction.opcode == "dynamic-update-slice":
            written += inner.get_operand(instruction, 1).bytes
        elif instruction.opcode == "scatter":
            written += sum(i.bytes for i in _list_updates(inner, instruction))
        else:
            written += instruction.bytes
    return written
