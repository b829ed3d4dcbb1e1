"""The fit as one would write it first in Keras: the reference for tests, and what each optimisation is priced from."""

from tfperf.workloads.pdf.naive.fit import NaiveTraining as NaiveTraining
from tfperf.workloads.pdf.naive.fit import make_initial_weights as make_initial_weights
