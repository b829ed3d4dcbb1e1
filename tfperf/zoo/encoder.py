"""Texts to rows of length 1 that are near each other where texts mean the same: an encoder of MiniLM's shape.

Its weights are random, which is enough to measure how fast it is; those of all-MiniLM-L6-v2 are made for it by
encoder_weights.py, texts and their tokenizer by passages.py.

Source: Wang et al. 2020, "MiniLM: deep self-attention distillation for task-agnostic compression of pre-trained
transformers", with the mean over places of Reimers & Gurevych 2019, "Sentence-BERT".
"""

import keras

from tfperf.errors import UserError
from tfperf.zoo.encoder_layers import EmbeddedTokens, EncoderBlock, MeanRow


def build_encoder(
    vocabulary: int = 30522, layers: int = 6, width: int = 384, heads: int = 12, inner: int = 1536,
    positions: int = 512, seed: int = 1,
) -> keras.Model:  # fmt: skip
    """Numbers of tokens (B, L), 0 for padding, to rows (B, width) of length 1; L may be anything up to `positions`.

    vocabulary: numbers of tokens lie below; layers: blocks; inner: units of the network of each. seed: of the weights,
    which are the same in every process.
    Raises: UserError where `heads` do not divide `width`.
    """
    if width % heads:
        raise UserError(f"heads: got {heads}; must divide width = {width}")
    tokens = keras.Input((None,), dtype="int32", name="tokens")
    known = keras.ops.not_equal(tokens, 0)
    hidden = EmbeddedTokens(vocabulary, width, positions, seed, name="embedded_tokens")(tokens)
    for number in range(layers):
        # a seed of its own for each, far from those of other models' blocks
        hidden = EncoderBlock(width, heads, inner, seed * 1000 + number, name=f"block_{number}")(hidden, known)
    return keras.Model(tokens, MeanRow(name="embedding")(hidden, known), name="encoder")
