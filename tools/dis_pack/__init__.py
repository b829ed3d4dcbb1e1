"""Theory of the deep-inelastic pack: coefficient functions (yadism) and evolution (EKO's kernels)."""
