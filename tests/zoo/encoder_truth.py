"""The encoder in float64, text by text, head by head and place by place, from weights as their authors name them."""

import numpy as np
from scipy.special import erf

EPSILON = 1e-12


def draw_tensors(vocabulary, layers, width, inner, positions, seed=1, deviation=0.4):
    """Weights by the names of the published file, large enough that attention is far from even."""
    draws = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (vocabulary, width),
        "embeddings.position_embeddings.weight": (positions, width),
        "embeddings.token_type_embeddings.weight": (2, width),
        "embeddings.LayerNorm.weight": (width,), "embeddings.LayerNorm.bias": (width,),
    }  # fmt: skip
    for number in range(layers):
        sizes: dict[str, tuple[int, ...]] = {
            f"attention.self.{one}": (width, width) for one in ("query", "key", "value")
        }
        sizes |= {"attention.output.dense": (width, width), "intermediate.dense": (inner, width)}
        sizes |= {"output.dense": (width, inner), "attention.output.LayerNorm": (width,), "output.LayerNorm": (width,)}
        for name, shape in sizes.items():
            shapes[f"encoder.layer.{number}.{name}.weight"] = shape
            shapes[f"encoder.layer.{number}.{name}.bias"] = shape[:1]
    # exact in float32, so that both see the same weights; scales of normalisations about 1, so that texts differ
    return {
        name: (draws.normal(0, deviation, shape) + name.endswith("LayerNorm.weight")).astype(np.float32)
        for name, shape in shapes.items()
    }


def normalize(x, tensors, name):
    """Each vector to mean 0 and deviation 1, then scaled and shifted."""
    deviation = np.sqrt(np.mean((x - x.mean()) ** 2) + EPSILON)
    return (x - x.mean()) / deviation * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def apply(x, tensors, name):
    return tensors[f"{name}.weight"] @ x + tensors[f"{name}.bias"]


def attend(places, tensors, name, heads):
    """What each place takes from all of them."""
    queries, keys, values = ([apply(x, tensors, f"{name}.{one}") for x in places] for one in ("query", "key", "value"))
    size = len(places[0]) // heads
    found = []
    for query in queries:
        parts = []
        for head in range(heads):
            cut = slice(head * size, (head + 1) * size)
            weights = np.exp([query[cut] @ key[cut] / np.sqrt(size) for key in keys])
            parts.append(sum(w * value[cut] for w, value in zip(weights / weights.sum(), values, strict=True)))
        found.append(np.concatenate(parts))
    return found


def encode(text, tensors, heads):
    """The row of one text: numbers of tokens without padding."""
    tensors = {name: value.astype(np.float64) for name, value in tensors.items()}
    tables = [tensors[f"embeddings.{one}_embeddings.weight"] for one in ("word", "position", "token_type")]
    places = [
        normalize(tables[0][token] + tables[1][place] + tables[2][0], tensors, "embeddings.LayerNorm")
        for place, token in enumerate(text)
    ]
    for number in range(sum(name.endswith("intermediate.dense.bias") for name in tensors)):
        name = f"encoder.layer.{number}"
        taken_in = attend(places, tensors, f"{name}.attention.self", heads)
        for place, (x, more) in enumerate(zip(places, taken_in, strict=True)):
            x = normalize(
                x + apply(more, tensors, f"{name}.attention.output.dense"),
                tensors,
                f"{name}.attention.output.LayerNorm",
            )
            wide = apply(x, tensors, f"{name}.intermediate.dense")
            wide = wide * 0.5 * (1 + erf(wide / np.sqrt(2)))
            places[place] = normalize(
                x + apply(wide, tensors, f"{name}.output.dense"), tensors, f"{name}.output.LayerNorm"
            )
    mean = np.mean(places, 0)
    return mean / np.linalg.norm(mean)
