"""The fit as one would write it first in Keras: the reference for tests, and what each optimisation is priced from."""

from tfperf.train.naive.fit import Naive as Naive
from tfperf.train.naive.fit import start_weights as start_weights
