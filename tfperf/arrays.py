"""Names of NumPy's arrays in annotations, for all rooms: one name, one meaning.

The first have a type, and any shape: fields and docstrings tell shape and unit. The others have a meaning of their own.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = NDArray[Any]  # numbers, booleans or texts: what a file or a snapshot has
Float64Array = NDArray[np.float64]  # data, operators, exact sums, times in ms or s
Float32Array = NDArray[np.float32]  # metrics of any training, and what needs no more digits
FloatArray = NDArray[np.floating]  # float32 or float64: the precision of a training
Complex128Array = NDArray[np.complex128]  # moments
Int64Array = NDArray[np.int64]  # numbers by which things are known, counts, lengths
Int32Array = NDArray[np.int32]  # small numbers: entries of tables, states, lanes of a profile
TextArray = NDArray[np.str_]
BytesArray = NDArray[np.bytes_]  # texts in UTF-8, filled up with zeros
BoolMask = NDArray[np.bool_]  # true for each that is meant

Indices = NDArray[np.intp]  # (n) positions in another array
PackedBits = NDArray[np.uint8]  # (n, bytes) or (bytes): eight booleans in each, as np.packbits makes them
Times = NDArray[np.int64]  # (n) ns since the begin of a profile
ReplicaIndices = NDArray[np.int64]  # (r): which of the R replicas of a training
ReplicaWeights = Mapping[str, FloatArray]  # (R, ...) each, by name
ArraysByName = Mapping[str, AnyArray]  # of a file, a part of it, or a model
Snapshot = dict[str, AnyArray]  # values of all variables that decide the future of a training, by name
