"""What a step of a translator computes, by counting: arithmetic, and steps in a row."""

from tfperf.workloads.translate.card import Network

GATES = 4


def count_pass_flops(network: Network, rows: int, batch: int, source: float, target: float) -> float:
    """FLOPs of the matrix products of one device's forward and backward pass, which has twice those of the forward.

    batch: sentence pairs on the device; source, target: mean padded lengths; rows: of the tables. An LSTM layer of U
    units multiplies (2 U) by (2 U, 4 U) for each position.
    """
    u = network.units
    attention = 2 * 2 * source * target * u
    projection = 2 * u * rows * target
    return count_lstm_flops(network, batch, source, target) + 3 * batch * (attention + projection)


def count_lstm_flops(network: Network, batch: int, source: float, target: float) -> float:
    """Those of the LSTM layers alone."""
    u = network.units
    return 3 * batch * 2 * (2 * u) * (GATES * u) * network.layers * (source + target)


def count_chain_turns(layers: int, source: float, target: float) -> float:
    """Positions of LSTM layers that no device can take at the same time, in a forward pass; the backward has as many.

    An encoder's layer waits for the whole one below it; a decoder's for that, and for the last state of the encoder's
    layer beside it. source, target: padded lengths.

    >>> count_chain_turns(layers=2, source=10, target=12)
    34
    """
    return source + target + (layers - 1) * max(source, target)
