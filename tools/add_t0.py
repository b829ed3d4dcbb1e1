"""Give the pack of a finished run its t0 predictions: those of the run's mean PDF, for every set, fitted or not.

    tfperf iterate runcards/pdf_dis.yaml -o iterated
    python tools/add_t0.py iterated/fit_3

They are written as `<set>/t0`, in place.
"""

import argparse
from pathlib import Path

import numpy as np

from tfperf.results.contents import CARD, RESULTS
from tfperf.workloads.pdf.cards import load_card
from tfperf.workloads.pdf.data.pack import list_sets, open_pack, read_dataset
from tfperf.workloads.pdf.data.write import write_t0
from tfperf.workloads.pdf.inputs import average_pdf
from tfperf.workloads.pdf.operators.observables import predict_sets
from tfperf.workloads.pdf.results import store
from tfperf.workloads.pdf.results.postfit import veto_replicas


def predict_pack(pack: Path, pdf: np.ndarray) -> dict[str, np.ndarray]:
    """Predictions (N) of every set for x f (8, X)."""
    with open_pack(pack) as file:
        sets = [read_dataset(file, name) for name in list_sets(file)]
    return {d.name: y for d, y in zip(sets, predict_sets(sets, pdf), strict=True)}


def main() -> None:
    """Write the pack in place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    pack, result = load_card(run / CARD).data.pack, store.read(run / RESULTS)
    t0 = predict_pack(pack, average_pdf(result))
    write_t0(
        pack, pack, t0, f"mean of {len(veto_replicas(result).passed)} replicas, tfperf iterate and tools/add_t0.py"
    )
    print(f"{pack}: t0 of {len(t0)} sets written")


if __name__ == "__main__":
    main()
