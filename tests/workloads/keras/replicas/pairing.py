"""Replicas of a card's model in pairs: in one ensemble, and each alone by Keras' own `fit`. R pairs.

python -m tests.workloads.keras.replicas.pairing keras_tabular -o pairs.json --replicas 40 --set train.epochs=60
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import keras
import numpy as np
from scipy import stats

import tfperf
from tfperf.sources.samples import Samples
from tfperf.workloads.cards import load_card
from tfperf.workloads.keras.card import KerasCard
from tfperf.workloads.keras.inputs import draw_order, read_data
from tfperf.workloads.keras.models import make_model
from tfperf.workloads.keras.replicas.draws import draw_model_seed

CARDS = Path(__file__).parents[4] / "runcards"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Pairs:
    """One figure of the last epoch: of the ensemble's replicas (R), and of those alone (R)."""

    together: Sequence[float]
    alone: Sequence[float]

    def describe(self) -> dict[str, Any]:
        """The mean difference, together less alone, its interval by Student's t, and how much replicas scatter.

        Figures are of float32: the interval is wider by what the largest of them is rounded by.
        """
        together, alone = np.array(self.together, float), np.array(self.alone, float)
        differences = together - alone
        mean, error = differences.mean(), differences.std(ddof=1) / np.sqrt(len(differences))
        half = stats.t.ppf((1 + CONFIDENCE) / 2, len(differences) - 1) * error
        half += float(np.spacing(np.float32(np.abs(alone).max())))
        return {
            "together": together.mean(), "alone": alone.mean(), "sigma": alone.std(ddof=1),
            "difference": mean, "interval": [mean - half, mean + half],
            "largest": np.abs(differences).max(), "equal": int(np.sum(differences == 0)), "pairs": len(differences),
        }  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """What the pairs of a card told: each validated figure by its name."""

    card: str
    settings: Sequence[str]
    replicas: int
    epochs: int
    samples: int
    figures: dict[str, Any]


class Ordered(keras.utils.PyDataset):
    """Samples in memory, in batches in the order of a replica's seed."""

    def __init__(self, samples: Samples, batch: int, seed: int) -> None:
        super().__init__()
        self.samples, self.batch, self.seed, self.epoch = samples, batch, seed, 0

    def __len__(self) -> int:
        return -(-len(self.samples) // self.batch)

    def __getitem__(self, i: int) -> Any:
        rows = draw_order(self.seed, self.epoch, len(self.samples), True)[i * self.batch : (i + 1) * self.batch]
        return self.samples.select(rows).data


class Kept(keras.utils.PyDataset):
    """Batches that were kept, those of an epoch from the pass of its number over a stream.

    Keras' own `fit` of the stream would do without its second pass, which it uses up.
    """

    def __init__(self, passes: Sequence[Sequence[Any]]) -> None:
        super().__init__()
        self.passes, self.epoch = passes, 0

    def __len__(self) -> int:
        return len(self.passes[self.epoch])

    def __getitem__(self, i: int) -> Any:
        return self.passes[self.epoch][i]


class Epochs(keras.callbacks.Callback):
    """Tells the batches which epoch it is: Keras ends an epoch of theirs more often than it ends one of its own."""

    def __init__(self, batches: Ordered | Kept) -> None:
        super().__init__()
        self.batches = batches

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.batches.epoch = epoch


def keep_passes(card: KerasCard, passes: int) -> list[list[Any]]:
    """The batches of as many passes over the card's stream; none of samples in memory."""
    training = read_data(card).training
    return [] if isinstance(training, Samples) else [list(training.source) for _ in range(passes)]


def fit_alone(card: KerasCard, replica: int, passes: Sequence[Sequence[Any]]) -> dict[str, list[float]]:
    """The history of Keras' own fit of one replica, in graph mode; of a stream on the kept `passes` over it."""
    seed, data = draw_model_seed(card.seed, replica), read_data(card)
    model = make_model(replace(card, seed=seed), new_session=True)
    model.jit_compile = False
    training, held = data.training, data.validation
    batches = Ordered(training, data.batch, seed) if isinstance(training, Samples) else Kept(passes)
    rest = {"validation_batch_size": data.batch} if isinstance(training, Samples) else {}
    assert held is not None
    history = model.fit(
        batches, epochs=card.train.epochs, shuffle=False, callbacks=[Epochs(batches)], verbose=0,
        validation_data=held.data if isinstance(held, Samples) else held.source, **rest,
    )  # fmt: skip
    return dict(history.history)


def count_samples(card: KerasCard) -> int:
    """Of the samples in memory, or of the batches of a stream."""
    training = read_data(card).training
    if isinstance(training, Samples):
        return len(training)
    return sum(len(keras.tree.flatten(batch)[0]) for batch in training.source)


def compare_pairs(
    name: str, replicas: int, settings: Sequence[str] = (), form: str = "stacked", say: Any = None
) -> Comparison:
    """Train a card of runcards/, NAME.yaml, both ways, to the end of its epochs."""
    path = CARDS / f"{name}.yaml"
    forced = [*settings, f"replicas={replicas}", f"engine.form={form}", "engine.xla=false"]
    forced += ["ensemble={}"]  # of the tabular card: to the end, of all samples
    with TemporaryDirectory(prefix="tfperf-") as folder:
        found = tfperf.fit(path, Path(folder) / "run", overrides=forced)
        history = found.history
    begun = time.perf_counter()
    card = load_card(path, list(settings))
    assert isinstance(card, KerasCard) and card.train.epochs is not None
    alone, passes = [], keep_passes(card, card.train.epochs)
    for replica in range(1, replicas + 1):
        alone.append(fit_alone(card, replica, passes))
        if say:
            say(f"{name}: {replica} of {replicas} alone, {time.perf_counter() - begun:.0f} s")
    names = [one for one in history if one.startswith("val_")]
    figures = {one: Pairs(history[one][-1].tolist(), [each[one][-1] for each in alone]) for one in names}
    return Comparison(
        path.name, list(settings), replicas, card.train.epochs, count_samples(card),
        {one: {**pairs.describe(), **asdict(pairs)} for one, pairs in figures.items()},
    )  # fmt: skip


def main() -> None:
    """Compare and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--replicas", type=int, default=40)
    parser.add_argument("--form", default="stacked")
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    found = compare_pairs(given.name, given.replicas, given.set, given.form, lambda line: print(line, flush=True))
    given.output.write_text(json.dumps(asdict(found), indent=1))


if __name__ == "__main__":
    main()
