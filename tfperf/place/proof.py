"""Proof of a placement: where every operation of a step ran and what devices sent each other, beside what should be.

An operation that touches more than SMALL bytes has to be one that a rule expects, on a device that the rule allows.
What goes from device to device, the matrix products of each device, how often variables and slots are read and
written, and what look-ups, merges, clippings and updates compute are held against what the placement needs. So work
under another's name, beside a decoy, or done twice, shows; what is small may be anywhere, as the shapes that GPU
programs keep on the host. Of passes only the products are counted. What nothing asks for, as a weight without a
gradient, need not be there; the trainable's own graph tells which (`demand.py`).

The loss, metrics and statistics are followed back from where they are told or assigned (`merge_finder.py`): each
device's own value has to be in them, once, and divided where they are means. That is not told of a hierarchy's sums and
of NCCL's, which put values together and cut them elsewhere; of the values that other devices hand to a collective,
which their own graphs tell; and of gradients, of which where they are summed and how much is sent for it is held
against what is needed, but not how often each is in the sum. There tests compare numbers with one device's.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tfperf.errors import PlacementError
from tfperf.place.devices import Devices
from tfperf.place.graphs import PlacedOperation, StepRecord
from tfperf.place.merge_checks import check_merges
from tfperf.place.nodes import XLA, XLA_TEXT
from tfperf.place.rules import PlacementRule, check_compiled, check_operations
from tfperf.place.transfers import (
    BatchShapes,
    Needs,
    check_collectives,
    check_local_batches,
    check_products,
    check_transfers,
    split_batch,
)
from tfperf.place.uses import check_uses
from tfperf.place.variable_copies import VariableCopy, check_program_tensors, check_variable_copies

MOST_FAULTS = 5  # that are told
RECURRENT = {"CudnnRNN": "cudnn", "BlockLSTM": "block"}  # by how their kinds begin


@dataclass(frozen=True)
class Proof:
    """What ran where: by rule, and by device how many operations; `kernels`: how layers were computed.

    transfers: bytes of a step between two devices, and those that are needed.
    """

    devices: Mapping[str, Mapping[str, int]]
    kernels: Mapping[str, Any]
    faults: tuple[str, ...] = ()
    elsewhere: tuple[str, ...] = field(default=())  # small operations of no rule, by kind and device
    transfers: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def refuse_faults(self) -> "Proof":
        """The proof itself. Raises: PlacementError where something is not where it should be."""
        if self.faults:
            more = len(self.faults) - MOST_FAULTS
            raise PlacementError(*self.faults[:MOST_FAULTS], *([f"and {more} more"] if more > 0 else []))
        return self


class ProvableEngine(Protocol):
    """What can be proved of."""

    devices: Devices

    def list_copies(self) -> list[VariableCopy]:
        """Copies of variables, and slots."""

    def list_rules(self) -> list[PlacementRule]:
        """Where everything of a step has to run."""

    def compute_needs(self, local_batches: BatchShapes) -> Needs:
        """What a step has to send and to multiply for the local batches, by the number of their device."""


def prove_engine(engine: ProvableEngine, run: StepRecord) -> Proof:
    """Proof for an engine, of which this ran."""
    local_batches = split_batch(run.batch, len(engine.devices), [k for k, _ in engine.devices.mine])
    copies, kernels = engine.list_copies(), find_kernels(run.operations)
    needs = engine.compute_needs(local_batches) if local_batches else Needs()
    report = check_operations(run.operations, engine.list_rules(), needs)
    faults, transfers = check_transfers(run.transfers, needs.transfers)
    faults = [
        *check_variable_copies(copies), *report.faults, *check_compiled(run.operations, needs.compiled),
        *check_local_batches(local_batches), *faults, *check_collectives(run.collectives, needs.collectives),
        *check_products(run.products, needs.products, kernels["recurrent"] == "cudnn"),
        *check_program_tensors(run.tensors, copies, needs), *check_uses(run.tensors, needs.uses),
        *check_merges(run.merged, needs.merges),
    ]  # fmt: skip
    return Proof(report.devices, kernels, tuple(faults), report.elsewhere, transfers)


def prove(operations: Sequence[PlacedOperation], rules: Sequence[PlacementRule]) -> Proof:
    """Proof of operations alone."""
    report = check_operations(operations, rules)
    return Proof(report.devices, find_kernels(operations), tuple(report.faults), report.elsewhere)


def find_kernels(operations: Iterable[PlacedOperation]) -> dict[str, Any]:
    """How recurrent layers and embedding gradients were computed, and whether XLA was used."""
    every = list(operations)
    towers = [operation for operation in every if re.search(r"tower_\d+/", operation.name)]
    dense = any(o.kind == "UnsortedSegmentSum" and "backward" in o.name for o in towers)
    xla = any(o.kind in XLA or o.hidden_work == XLA_TEXT for o in towers)
    kernel = [name for kind, name in RECURRENT.items() if any(o.kind.startswith(kind) for o in every)]
    return {
        "recurrent": kernel[0] if kernel else "xla" if xla else "plain",
        "embedding_gradients": "inside xla" if xla else "dense" if dense else "sparse", "xla": xla,
    }  # fmt: skip
