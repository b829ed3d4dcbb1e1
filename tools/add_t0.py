"""Give a pack its t0 predictions, from a fit iterated twice.

    python tools/add_t0.py runcards/pdf_dis.yaml --work t0_fits

The first fit has no t0, the second takes the first one's mean PDF; the second one's predictions for every set of the
pack, fitted or not, are written as `<set>/t0`. Interrupted, it goes on where it was when called again.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfperf.results.rundir import has_run
from tfperf.runs.fit import fit
from tfperf.workloads.options import Options
from tfperf.workloads.pdf.card import Card
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset
from tfperf.workloads.pdf.data.write import write_t0
from tfperf.workloads.pdf.inputs import average_pdf
from tfperf.workloads.pdf.operators.observables import predict_sets
from tfperf.workloads.pdf.results.record import FitResult


def predict_pack(pack: Path, pdf: np.ndarray) -> dict[str, np.ndarray]:
    """Predictions (N) of every deep-inelastic set for x f (8, X)."""
    with open_pack(pack) as file:
        sets = [read_dataset(file, name) for name in list_sets(file)]
    return {d.name: y for d, y in zip(sets, predict_sets(sets, pdf), strict=True)}


def iterate(card: Card, work: Path) -> FitResult:
    """The second of two fits, the first without t0."""
    result: FitResult | None = None
    for number, t0 in enumerate(("none", str((work / "fit_1").resolve())), start=1):
        folder = work / f"fit_{number}"
        step = replace(card, title=f"t0 iteration {number}", data=replace(card.data, t0=t0))
        result = fit(step, folder, options=Options(resume=has_run(folder)), quiet=False)
    assert result is not None
    return result


def main() -> None:
    """Fit twice, write the pack in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("card", type=Path)
    parser.add_argument("--work", type=Path, default=Path("t0_fits"), help="folder for the two runs")
    parser.add_argument("--replicas", type=int, default=20)
    args = parser.parse_args()
    card = load_card(args.card, [f"replicas={args.replicas}", "data.t0=none"])
    result = iterate(card, args.work)
    t0 = predict_pack(card.data.pack, average_pdf(result))
    count = int(result.converged.sum())
    provenance = f"mean of {count} replicas, second iteration of {args.card.name}, tools/add_t0.py"
    write_t0(card.data.pack, card.data.pack, t0, provenance)
    print(f"{card.data.pack}: t0 of {len(t0)} sets written")


if __name__ == "__main__":
    main()
