"""What a step of a translator computes."""

import numpy as np

from tfperf.workloads.translate.arithmetic import count_pass_flops
from tfperf.workloads.translate.card import Network


def test_flops_are_those_of_the_matrix_products():
    """Counted product by product: (rows, inner) by (inner, columns) is 2 rows inner columns."""
    network, rows, batch, source, target = Network(units=6, layers=2), 50, 3, 5, 4
    products = [(batch, 6, 24)] * (2 * network.layers * (source + target))  # kernel and recurrent kernel
    products += [(target, 6, source), (target, source, 6)] * batch + [(batch * target, 6, rows)]
    want = 3 * sum(2 * np.prod(product) for product in products)
    assert count_pass_flops(network, rows, batch, source, target) == want
