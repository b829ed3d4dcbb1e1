"""What stacking replicas is worth."""

from collections.abc import Iterator
from pathlib import Path
from statistics import median, quantiles

from benchmarks.registry import Row, register_benchmark

CARD = Path(__file__).parents[1] / "runcards" / "pdf_dis.yaml"
SIZES = (1, 10, 100)
ROUNDS = 5


@register_benchmark(
    "stacking",
    claim="a step of a stack costs less than the steps of its replicas one at a time",
    sweep=f"replicas R = {', '.join(map(str, SIZES))}, in turn, {ROUNDS} rounds",
    unit="one optimizer step of the shipped card (2155 points, training and validation), ms; compilation apart",
)
def measure_stacking() -> Iterator[Row]:
    """Time the compiled loop for each R; ratio: R steps of one replica alone over one step of the stack."""
    from tfperf.train.choosing import measure_candidate
    from tfperf.train.loop import Loop
    from tfperf.workloads.pdf.cards import load_card
    from tfperf.workloads.pdf.data.selection import select
    from tfperf.workloads.pdf.forms import Chi2Form
    from tfperf.workloads.pdf.operators.problem import build_problem
    from tfperf.workloads.pdf.stack import PDFStack, make_settings

    card = load_card(CARD)
    selection = select(card)
    loops = {}
    for size in SIZES:
        ids = tuple(range(1, size + 1))
        stack = PDFStack(card, build_problem(card, selection, ids))
        stack.model.initialize(card.seed, ids, [0] * size)
        loops[size] = Loop(make_settings(card), stack)
    times: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(ROUNDS):
        for size, loop in loops.items():
            times[size].append(measure_candidate(loop, True, Chi2Form()).ms_per_step)
    alone = median(times[1])
    for size in SIZES:
        q1, middle, q3 = quantiles(times[size], n=4, method="inclusive")
        yield {"replicas": size, "ms_per_step": middle, "q1": q1, "q3": q3, "ratio": size * alone / middle}
