"""The peer, n3fit of the NNPDF code, measured beside tfperf on the same problems; it has its own environment."""
