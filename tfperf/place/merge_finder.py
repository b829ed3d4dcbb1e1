"""What is made of the values that devices found: how often each device's is in a sum, read off the graphs that ran.

From where a value is assigned, or told, a graph is followed back through sums, and products with constants, to what
passes found, under the names that `mark_found` gives.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfperf.place.nodes import CARRIERS, RECEIVES, get_rendezvous_key

SINKS = re.compile(r"\b(statistic|told)_(\d+)(?:_\d+)?/")
FOUND = re.compile(r"\btower_(\d+)/(?:.*/)?found_(statistic|told)_(\d+)$")
TOLD, ASSIGNED = "TensorListSetItem", "Assign"
ITEM, VALUE = 2, 1  # numbers of the inputs that these take
SUMS, DIVISIONS = frozenset(["AddN", "AddV2", "Add"]), frozenset(["RealDiv", "Div"])
PASSING = CARRIERS | {"Reshape", "Snapshot", "PreventGradient"}
SPLITS, COLLECTIVE = frozenset(["Split", "SplitV"]), frozenset(["CollectiveReduce", "CollectiveReduceV2"])
Source = tuple[str, int]


class FoundMerge(NamedTuple):
    """A value where it is assigned to statistic, or told as, number `number`, on a device.

    shares: by what each device's value is multiplied in it, by number of the device; empty: no such sum is found.
    all_reduced: a collective added those of all other devices, of which this graph does not tell.
    """

    what: str
    number: int
    device: str
    name: str
    shares: Mapping[int, float]
    all_reduced: bool = False


class MergeFinder:
    """Of one function: nodes by name, what each is given, and the receiver of each channel's send."""

    def __init__(self, nodes: Mapping[str, Any], inputs: Mapping[str, Sequence[Source]]) -> None:
        self.nodes, self.inputs = nodes, inputs
        self.sends = {
            get_rendezvous_key(node): node.name for node in nodes.values() if node.op in ("_Send", "_HostSend")
        }
        self._all_reduced, self._sought = False, ("", 0)

    def find_merges(self) -> Iterator[FoundMerge]:
        """All values that are assigned to statistics, or told of a step."""
        for node in self.nodes.values():
            told, assigned = node.op == TOLD, node.op.startswith(ASSIGNED)
            scope = SINKS.search(node.name) if told or assigned else None
            if scope is None or (scope[1] == "told") is not told:
                continue
            self._all_reduced, self._sought = False, (scope[1], int(scope[2]))
            shares = self._find_shares(self.inputs[node.name][ITEM if told else VALUE], ())
            yield FoundMerge(*self._sought, node.device, node.name, dict(shares or {}), self._all_reduced)

    def _find_shares(self, source: Source, ports: tuple[int, ...]) -> Counter[int] | None:
        """By device, of what a source gives; ports: of splits on the way, innermost last. None: it is no such sum."""
        name, port = source
        node = self.nodes.get(name)
        if node is None:
            return None
        found = FOUND.search(name)
        if found:
            mine = (found[2], int(found[3])) == self._sought
            return Counter({int(found[1]): 1.0}) if mine else None
        given = self.inputs[name]
        if node.op in RECEIVES:
            send = self.sends.get(get_rendezvous_key(node))
            return self._find_shares(self.inputs[send][0], ports) if send else None
        if node.op in SUMS:
            return self._sum([self._find_shares(one, ports) for one in given])
        if node.op == "Mul" or node.op in DIVISIONS:
            return self._multiply(node.op in DIVISIONS, given, ports)
        if node.op in SPLITS:
            return self._find_shares(given[1 if node.op == "Split" else 0], (*ports, port))
        if node.op == "ConcatV2" and ports:
            return self._find_shares(given[ports[-1]], ports[:-1])
        if node.op in COLLECTIVE and node.attr["merge_op"].s == b"Add":
            self._all_reduced = True
            return self._find_shares(given[0], ports)
        if node.op == "IdentityN":
            return self._find_shares(given[port], ports)
        return self._find_shares(given[0], ports) if node.op in PASSING and given else None

    def _sum(self, every: Sequence[Counter[int] | None]) -> Counter[int] | None:
        total: Counter[int] = Counter()
        for one in every:
            if one is None:
                return None
            for number, share in one.items():
                total[number] += share
        return total

    def _multiply(self, divided: bool, given: Sequence[Source], ports: tuple[int, ...]) -> Counter[int] | None:
        """A product with a constant."""
        first, second = given[:2]
        factor = self._find_constant(second[0])
        if factor is None and not divided:
            first, factor = second, self._find_constant(first[0])
        shares = None if factor is None else self._find_shares(first, ports)
        if shares is None or not factor:
            return None
        by = 1 / factor if divided else factor
        return Counter({number: share * by for number, share in shares.items()})

    def _find_constant(self, name: str) -> float | None:
        """The number that a node gives; None: it is no constant."""
        import tensorflow as tf

        node = self.nodes.get(name)
        while node is not None and node.op in (*PASSING, *RECEIVES):
            send = self.sends.get(get_rendezvous_key(node)) if node.op in RECEIVES else node.name
            given = self.inputs[send] if send else ()
            node = self.nodes.get(given[0][0]) if given else None
        if node is None or node.op != "Const":
            return None
        value = tf.make_ndarray(node.attr["value"].tensor)
        return float(value.flat[0]) if value.size == 1 and value.dtype.kind in "fiu" else None
