"""What the pack is computed with: parameters of NNPDF4.0 (arXiv:2109.02653), at next-to-leading order."""

from typing import Any

import numpy as np
from eko.interpolation import lambertgrid

Q0, ALPHAS, MZ, MCHARM, MBOTTOM, MTOP = 1.65, 0.118, 91.2, 1.51, 4.92, 172.5  # GeV, alpha_s at MZ
X = np.array(lambertgrid(50, 2e-7))  # the nodes of NNPDF4.0's tables
DEGREE = 4  # of the interpolation polynomials, in log x
ACTIVE = ("sigma", "g", "v", "v3", "v8", "v15", "t3", "t8", "t15")  # independent at Q0, where four flavours are active
THEORY: dict[str, Any] = {  # yadism's theory card
    "PTO": 1, "PTODIS": 1, "QED": 0, "Q0": Q0, "nf0": 4, "nfref": 5, "mc": MCHARM, "mb": MBOTTOM, "mt": MTOP,
    "kcThr": 1.0, "kbThr": 1.0, "ktThr": np.inf, "HQ": "POLE", "IC": 1, "ModEv": "TRN", "XIR": 1.0, "XIF": 1.0,
    "RenScaleVar": False, "FactScaleVar": False, "alphas": ALPHAS, "Qref": MZ, "alphaqed": 0.0077553, "MZ": 91.1876,
    "MW": 80.398, "GF": 1.1663787e-05, "SIN2TW": 0.23126, "MP": 0.938,
    "CKM": [0.97428, 0.2253, 0.00347, 0.2252, 0.97345, 0.041, 0.00862, 0.0403, 0.999152], "n3lo_cf_variation": 0,
}  # fmt: skip
