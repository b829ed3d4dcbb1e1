"""How much a data pack may hold, and how large its numbers may be; what claims more is refused before it is read."""

from collections.abc import Mapping

# sizes of arrays; pairs c0 <= c1 of 14 flavours
MOST: Mapping[str, int] = {"N": 10_000, "X": 1000, "F": 14, "C": 105, "K": 10_000, "D": 100, "M": 10_000}
SETS = 1000  # datasets, and as many positivity sets
FIELDS = 100  # arrays of a set
TABLE_BYTES = 4 * 10**9  # a table
ROW_BYTES = 64 * 10**6  # a point of a table
ARRAY_BYTES = 10**8  # any other array
COVARIANCE_BYTES = 8 * 10**8  # a theory covariance
NAME_LENGTH = 200  # characters of a name of a set or an error
TEXT_LENGTH = 1000  # characters of experiment, process, label and the names of kinematics
FAULTS = 200  # that are told
LARGEST = 1e15  # of a table, a value, an error or kinematics: squares are numbers in single precision, too
LEAST_ERROR = 1e-9  # of a point, all its errors together, in units of its value
LEAST_SCALE = 1e-9  # of a value, in units of an error that scales with it
Q0_RANGE = 0.1, 1e4  # GeV
LEAST_X = 1e-12
LAST_ROW = 10**9  # of a published set
