"""Train Keras models on TensorFlow as fast as the machine allows, and tell where the time went."""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tfperf.version import VERSION

if TYPE_CHECKING:
    from tfperf.api.ensembles import ensemble as ensemble
    from tfperf.api.fitting import fit as fit
    from tfperf.api.input import input_report as input_report
    from tfperf.api.memory import largest_batch as largest_batch
    from tfperf.api.memory import memory as memory
    from tfperf.api.predicting import predict as predict
    from tfperf.api.stores import open_store as open_store
    from tfperf.api.stores import store as store
    from tfperf.api.studies import compare as compare
    from tfperf.api.studies import load as load
    from tfperf.api.studies import profile as profile
    from tfperf.api.sweeping import sweep as sweep
    from tfperf.scopes import phase as phase
    from tfperf.trace.callback import ProfileCallback as ProfileCallback
    from tfperf.trace.capture import capture as capture

__version__ = VERSION
__all__ = [
    "ProfileCallback", "capture", "compare", "ensemble", "fit", "input_report", "largest_batch", "load", "memory",
    "open_store", "phase", "predict", "profile", "store", "sweep",
]  # fmt: skip
EXPORTS = {
    "ensemble": "tfperf.api.ensembles", "fit": "tfperf.api.fitting", "sweep": "tfperf.api.sweeping",
    "compare": "tfperf.api.studies", "input_report": "tfperf.api.input",
    "memory": "tfperf.api.memory", "largest_batch": "tfperf.api.memory", "profile": "tfperf.api.studies",
    "predict": "tfperf.api.predicting", "store": "tfperf.api.stores", "open_store": "tfperf.api.stores",
    "load": "tfperf.api.studies", "phase": "tfperf.scopes", "capture": "tfperf.trace.capture",
    "ProfileCallback": "tfperf.trace.callback",
}  # fmt: skip
# a library is silent where its user did not ask for its log
logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    """Load what is asked for on first use, so that `import tfperf` stays free of TensorFlow."""
    if name in EXPORTS:
        return getattr(import_module(EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
