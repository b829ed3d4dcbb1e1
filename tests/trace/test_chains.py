"""Chains of operations in graphs made by hand, whose longest one is known."""

import numpy as np
import pytest

from tests.trace.graphs import events, join_nodes, loop, names, node, runs, send, slow_longest
from tfperf.trace.chains import PathSegment, WaitPaths, find_longest_chains
from tfperf.trace.operations import find_operations
from tfperf.trace.runs import DONE, find_dependencies, find_runs


def before(graph, found, links):
    """Names of what each run waited for."""
    return [
        (names(graph, found, [i])[0], sorted(names(graph, found, links.before[links.start[i] : links.start[i + 1]])))
        for i in range(len(found))
    ]


def test_the_longest_chain_is_that_of_the_durations_not_of_the_most_operations():
    graph = join_nodes([node("a"), node("b", "a"), node("c", "b"), node("long", "a"), node("end", "c", "long")])
    found = runs(graph, ("a", 0, 1, 0), ("b", 1, 2, 0), ("c", 2, 3, 0), ("long", 1, 9, 1), ("end", 9, 10, 0))
    (chain,) = find_longest_chains(found, find_dependencies(found, graph))
    assert names(graph, found, chain.runs) == ["a", "long", "end"] and chain.length == 10


def test_sends_and_receives_join_the_graphs_of_devices():
    graph = join_nodes([node("a"), *send("r", "a", 0, 1), node("b", "r", device=1), node("alone", device=1)])
    found = runs(graph, ("a", 0, 50, 0), ("r/send", 50, 52, 0), ("alone", 0, 70, 1), ("b", 70, 90, 1))
    (chain,) = find_longest_chains(found, find_dependencies(found, graph))
    assert names(graph, found, chain.runs) == ["a", "r/send", "b"] and chain.length == 72


def test_what_is_sent_can_be_used_before_the_send_has_ended():
    graph = join_nodes([node("a"), *send("r", "a", 0, 1), node("b", "r", device=1)])
    first = ("a", 0, 5, 0), ("r/send", 5, 6, 0), ("b", 7, 9, 1)
    found = runs(graph, *first, ("a", 10, 50, 0), ("r/send", 50, 60, 0), ("b", 52, 90, 1))
    links = find_dependencies(found, graph)
    (chain,) = find_longest_chains(found, links)
    assert names(graph, found, chain.runs) == ["a", "r/send", "b"] and chain.times.tolist() == [40, 2, 38]
    assert chain.length == 80
    last = list(WaitPaths(found, links, np.array([0])).walk_back(5, 10))
    assert last == [PathSegment(50, 52, 4), PathSegment(10, 50, 3)]


def test_operations_without_runs_pass_on_what_they_wait_for():
    graph = join_nodes(
        [node("a"), node("group", "a", kind="NoOp"), node("further", "group", kind="NoOp"), node("b", "further")]
    )
    found = runs(graph, ("a", 0, 5, 0), ("b", 6, 7, 0))
    assert before(graph, found, find_dependencies(found, graph)) == [("a", []), ("b", ["a"])]


def test_depths_of_nested_loops():
    inner = [one for one in loop("inner", "outer/body_0", 2) if one.name != "inner"]
    nodes = [node("begin"), *loop("outer", "begin", 1), *inner, node("inner", "inner/switch", kind="Exit")]
    nodes.append(node("behind", "inner"))
    graph = join_nodes(nodes)
    depth = {one.name: graph.count_loops(i) for i, one in enumerate(graph.nodes)}
    assert (depth["begin"], depth["outer/body_0"], depth["inner/body_1"]) == (0, 1, 2)
    assert (depth["behind"], depth["outer"]) == (1, 1), "an Exit runs in the loop that it ends"
    assert graph.conditions["inner"] == [graph.index["inner/cond"]]


def turns(count, length, each=10, start=0, lane=0):
    """Rows of the runs of a loop that nothing disturbs, operation after operation; its kinds of plumbing too."""
    rows, now = [("loop/enter", start, start + 1, lane)], start + 1
    for turn in range(count + 1):
        for name in ("merge", "less", "cond", "switch"):
            rows.append((f"loop/{name}", now, now + 1, lane))
            now += 1
        if turn < count:
            for name in ("value", *(f"body_{i}" for i in range(length)), "next"):
                rows.append((f"loop/{name}", now, now + (each if "body" in name else 1), lane))
                now += each if "body" in name else 1
    return [*rows, ("loop", now, now + 1, lane)], now + 1


def test_a_loop_is_a_chain_of_its_turns():
    graph = join_nodes([node("begin"), *loop("loop", "begin", 3), node("other", "begin", device=1)])
    rows, end = turns(4, 3, start=5)
    found = runs(graph, ("begin", 0, 5, 0), *rows, ("other", 5, 100, 1))
    links = find_dependencies(found, graph)
    (chain,) = find_longest_chains(found, links)
    # all but what nothing later waits for: the operations before the last decision to turn are in a row
    assert chain.length == slow_longest(found, links) == end
    assert names(graph, found, chain.runs).count("loop/body_2") == 4


def test_runs_of_an_operation_that_ran_ahead_are_those_of_the_same_turn():
    """The input of all turns is cut up at once; a step waits for its own cut, and for the step before."""
    graph = join_nodes([node("begin"), *loop("loop", "begin", 1), node("loop/cut", "loop/value")])
    graph = join_nodes([
        *(one for one in graph.nodes if one.name != "loop/body_0"), node("loop/body_0", "loop/cut"),
    ])  # fmt: skip
    cuts = [("loop/cut", 10 * k, 10 * k + 9, 1) for k in range(3)]
    steps = [("loop/body_0", 9 + 20 * k, 29 + 20 * k, 0) for k in range(3)]
    found = runs(graph, *cuts, *steps)
    pairs = dict(zip([i for i in range(6) if names(graph, found, [i]) == ["loop/body_0"]], range(3), strict=True))
    links = find_dependencies(found, graph)
    for i, turn in pairs.items():
        theirs = [j for j in links.before[links.start[i] : links.start[i + 1]]
                  if names(graph, found, [j]) == ["loop/cut"]]  # fmt: skip
        assert [found.begin[j] for j in theirs] == [10 * turn]
        carried = [found.begin[j] for j in links.before[links.start[i] : links.start[i + 1]] if j in pairs]
        assert carried == [], "through the cut of the turn alone"


def test_the_next_turn_waits_for_the_one_before():
    nodes = [
        one
        for one in loop("loop", "begin", 1)
        if one.name in ("loop/merge", "loop/value", "loop/next", "loop/body_0", "loop/switch", "loop/enter")
    ]
    graph = join_nodes([node("begin"), *nodes])
    found = runs(graph, ("begin", 0, 1, 0), *(("loop/body_0", 1 + 10 * k, 8 + 10 * k, 0) for k in range(3)))
    assert before(graph, found, find_dependencies(found, graph)) == [
        ("begin", []), ("loop/body_0", ["begin"]), ("loop/body_0", ["begin", "loop/body_0"]),
        ("loop/body_0", ["begin", "loop/body_0"]),
    ]  # fmt: skip


def test_what_is_the_same_in_all_turns_waits_for_the_turn():
    constant = node("loop/constant", "begin", kind="Enter", frame="loop")
    graph = join_nodes([node("begin"), *loop("loop", "begin", 1), constant, node("loop/read", "loop/constant")])
    rows = [("begin", 0, 1, 0), ("loop/constant", 1, 2, 0)]
    rows += [
        (name, 10 * k + at, 10 * k + at + 1, 0) for k in range(3) for at, name in ((3, "loop/cond"), (5, "loop/read"))
    ]
    found = runs(graph, *rows)
    reads = [b for name, b in before(graph, found, find_dependencies(found, graph)) if name == "loop/read"]
    assert reads == [["loop/cond", "loop/constant"]] * 3


def test_chains_do_not_go_from_call_to_call():
    graph = join_nodes([node("a"), node("b", "a")])
    found = runs(graph, ("a", 0, 5, 0), ("b", 105, 110, 0), calls=((0, 50), (100, 150)))
    assert [chain.length for chain in find_longest_chains(found, find_dependencies(found, graph))] == [5, 5]


@pytest.mark.parametrize("seed", range(5))
def test_random_graphs_have_the_chain_that_a_slow_search_finds(seed):
    rng = np.random.default_rng(seed)
    nodes, rows, ends = [], [], []
    for i in range(12):
        others = [j for j in range(i) if rng.random() < 0.3]
        begin = max((ends[j] for j in others), default=0) + int(rng.integers(0, 5))
        ends.append(begin + int(rng.integers(1, 20)))
        nodes.append(node(f"n{i}", *(f"n{j}" for j in others)))
        rows.append((f"n{i}", begin, ends[-1], int(rng.integers(3))))
    graph = join_nodes(nodes)
    found = runs(graph, *rows)
    links = find_dependencies(found, graph)
    (chain,) = find_longest_chains(found, links)
    assert chain.length == slow_longest(found, links) == (found.end - found.begin)[chain.runs].sum()
    assert chain.length <= found.end.max() - found.begin.min()


def test_the_way_back_leaves_nothing_out_and_says_what_delayed():
    graph = join_nodes([node("a"), node("other"), node("b", "a"), node("c", "b")])
    found = runs(graph, ("a", 2, 10, 0), ("other", 9, 20, 1), ("b", 23, 30, 1), ("c", 31, 40, 0))
    paths = WaitPaths(found, find_dependencies(found, graph), np.array([0]))
    a, b, c = ([names(graph, found, [i])[0] for i in range(4)].index(name) for name in "abc")
    assert list(paths.walk_back(c, 0)) == [
        PathSegment(30, 31, c, "runtime"), PathSegment(23, 30, b), PathSegment(20, 23, b, "runtime"),
        PathSegment(10, 20, b, "queue"), PathSegment(2, 10, a), PathSegment(0, 2, a, "start"),
    ]  # fmt: skip
    assert list(paths.walk_back(c, 25)) == [PathSegment(30, 31, c, "runtime"), PathSegment(25, 30, b)]
    assert list(paths.walk_back(b, 15)) == [PathSegment(20, 23, b, "runtime"), PathSegment(15, 20, b, "queue")]


def test_runs_are_found_by_name_and_end_where_they_are_done():
    graph = join_nodes([node("a"), node("next", kind="IteratorGetNext"), *send("r", "a", 0, 1), node("b", "next", "r")])
    rows = [
        ("next", 0, 2, 0),
        ("a", 2, 8, 0),
        ("r", 3, 4, 1),
        ("b", 21, 25, 0),
        (DONE, 20, 21, 1),
        ("Process", 0, 30, 0),
    ]
    stats = {"name": (np.array([4]), ("next",))}
    one = events(graph, *rows, stats=stats)
    found = find_runs(one, find_operations(one, {}), graph, np.array([0]), np.array([24]))
    assert names(graph, found, range(len(found))) == ["next", "a", "b"], "a receive waits for its send"
    assert found.end.tolist() == [20, 8, 25] and found.left.tolist() == [2, 8, 25]
    # what went on by itself did not keep its thread busy
    paths = WaitPaths(found, find_dependencies(found, graph), np.array([0]))
    assert [segment.delay for segment in paths.walk_back(2, 0)] == ["runtime", ""]


def test_a_send_that_has_nothing_to_send_is_no_run():
    """It runs once more where a loop ends, and would wait for the value of the turn before."""
    graph = join_nodes([node("a"), *send("r", "a", 0, 1), node("b", "r", device=1)])
    rows = [("a", 0, 2, 0), ("r/send", 2, 3, 0), ("a", 4, 6, 0), ("r/send", 6, 7, 0), ("r/send", 50, 51, 0)]
    one = events(graph, *rows)
    found = find_runs(one, find_operations(one, {}), graph, np.array([0]), np.array([60]))
    assert names(graph, found, range(len(found))) == ["a", "r/send", "a", "r/send"]


def test_what_a_turn_hands_on_is_used_in_the_next_one_though_more_is_there():
    kept = "loop/enter", "loop/merge", "loop/switch", "loop/value"
    plumbing = [one for one in loop("loop", "begin", 1) if one.name in kept]
    ahead, slow = node("loop/ahead", "loop/enter"), node("loop/slow", "loop/value")
    graph = join_nodes([node("begin"), *plumbing, ahead, node("loop/next", "loop/ahead", kind="NextIteration"), slow])
    rows = [("begin", 0, 1, 0), *(("loop/ahead", 1 + k, 2 + k, 1) for k in range(3))]
    found = runs(graph, *rows, *(("loop/slow", 10 + 10 * k, 20 + 10 * k, 0) for k in range(3)))
    links = find_dependencies(found, graph)
    waited = [
        [int(found.begin[j]) for j in links.before[links.start[i] : links.start[i + 1]]
         if names(graph, found, [j]) == ["loop/ahead"]]
        for i in range(len(found)) if names(graph, found, [i]) == ["loop/slow"]
    ]  # fmt: skip
    assert waited == [[], [1], [2]]
