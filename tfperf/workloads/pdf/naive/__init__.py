"""The fit as one would write it first in Keras: the reference for tests, and what each optimisation is priced from."""

from tfperf.workloads.pdf.naive.fit import Naive as Naive
from tfperf.workloads.pdf.naive.fit import start_weights as start_weights
