"""Recipes of layers that prepare inputs: pictures, sounds, words, numbers in categories."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from keras import layers

from tests.workloads.keras.stacked.pairs import draw
from tests.workloads.keras.stacked.recipes import SAMPLES, follow, put_in

Makers = dict[str, Callable[[], Any]]
SIZE = (8, 8, 3)
RANGE = (0.0, 1.0)
OF_PICTURES: Makers = {
    "AugMix": partial(layers.AugMix, RANGE, num_chains=1, chain_depth=1),
    "AutoContrast": layers.AutoContrast,
    "CenterCrop": partial(layers.CenterCrop, 4, 4),
    "ContrastLimitedAdaptiveHistogramEqualization":
        partial(layers.ContrastLimitedAdaptiveHistogramEqualization, RANGE, tile_grid_size=(2, 2)),
    "CutMix": layers.CutMix,
    "Equalization": partial(layers.Equalization, RANGE, dtype="float32"), "MixUp": layers.MixUp,
    "Pipeline": lambda: layers.Pipeline([layers.RandomFlip(), layers.Rescaling(2.0)]),
    "RandAugment": partial(layers.RandAugment, RANGE, num_ops=1),
    "RandomBrightness": partial(layers.RandomBrightness, 0.3, RANGE),
    "RandomColorDegeneration": partial(layers.RandomColorDegeneration, 0.5, RANGE),
    "RandomColorJitter": lambda: layers.RandomColorJitter(RANGE, 0.2, 0.2, 0.2, 0.2),
    "RandomContrast": partial(layers.RandomContrast, 0.3, RANGE),
    "RandomCrop": lambda: follow(layers.RandomCrop(4, 4), layers.GlobalAveragePooling2D()),
    "RandomElasticTransform": layers.RandomElasticTransform, "RandomErasing": layers.RandomErasing,
    "RandomFlip": layers.RandomFlip, "RandomGaussianBlur": layers.RandomGaussianBlur,
    "RandomGrayscale": layers.RandomGrayscale, "RandomHue": partial(layers.RandomHue, 0.3, RANGE),
    "RandomInvert": partial(layers.RandomInvert, value_range=RANGE),
    "RandomPerspective": layers.RandomPerspective,
    "RandomPosterization": partial(layers.RandomPosterization, 4, value_range=RANGE),
    "RandomRotation": partial(layers.RandomRotation, 0.2),
    "RandomSaturation": partial(layers.RandomSaturation, 0.3, value_range=RANGE),
    "RandomSharpness": partial(layers.RandomSharpness, 0.3, value_range=RANGE),
    "RandomShear": partial(layers.RandomShear, 0.2, 0.2),
    "RandomTranslation": partial(layers.RandomTranslation, 0.2, 0.2), "RandomZoom": partial(layers.RandomZoom, 0.2),
    "Resizing": partial(layers.Resizing, 5, 6),
    "Solarization": partial(layers.Solarization, value_range=RANGE),
}  # fmt: skip
# fail in float64
NARROW = ("MelSpectrogram", "RandAugment", "RandomRotation")
OF_SOUNDS: Makers = {
    "MelSpectrogram": partial(
        layers.MelSpectrogram, fft_length=32, sequence_stride=16, sampling_rate=1000, num_mel_bins=4, min_freq=10.0,
        max_freq=500.0,
    ),
    "STFTSpectrogram": lambda: follow(
        layers.Reshape((64, 1)), layers.STFTSpectrogram("magnitude", frame_length=16, frame_step=8)
    ),
}  # fmt: skip
OF_NUMBERS: Makers = {
    "Normalization": partial(layers.Normalization, mean=0.5, variance=2.0),
    "Discretization": partial(layers.Discretization, [-0.5, 0.0, 0.5], output_mode="one_hot"),
}
OF_WORDS: Makers = {
    "CategoryEncoding": partial(layers.CategoryEncoding, 7, output_mode="multi_hot"),
    "Hashing": partial(layers.Hashing, 4, output_mode="multi_hot"),
    "IntegerLookup": partial(layers.IntegerLookup, vocabulary=[1, 3, 5], output_mode="multi_hot"),
}
OF_TEXTS: Makers = {
    "StringLookup": partial(layers.StringLookup, vocabulary=["a", "b"], output_mode="multi_hot"),
    "TextVectorization": partial(layers.TextVectorization, vocabulary=["a", "b"], output_mode="multi_hot"),
}
NAMES = (*OF_PICTURES, *OF_SOUNDS, *OF_NUMBERS, *OF_WORDS, *OF_TEXTS, "HashedCrossing")


def note_recipes() -> None:
    """Of inputs as they are."""
    rng = np.random.default_rng(0)
    for names, shape, x in (
        (OF_PICTURES, SIZE, rng.uniform(size=(SAMPLES, *SIZE))), (OF_SOUNDS, (64,), draw(SAMPLES, 64)),
        (OF_NUMBERS, (5,), draw(SAMPLES, 5)),
        (OF_WORDS, (5,), rng.integers(0, 7, size=(SAMPLES, 5)).astype("int32")),
        (OF_TEXTS, (1,), rng.choice(["a", "b", "c"], size=(SAMPLES, 1))),
    ):  # fmt: skip
        for name, make in names.items():
            put_in(name, make, [shape], [x], is_narrow=name in NARROW)
    two = [rng.integers(0, 7, size=(SAMPLES, 1)).astype("int32") for _ in range(2)]
    cross = partial(layers.HashedCrossing, 5, output_mode="one_hot")
    put_in("HashedCrossing", lambda: lambda pair: cross()(tuple(pair)), [(1,), (1,)], two)
