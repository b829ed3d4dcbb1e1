"""Theory of the deep-inelastic pack: next-to-leading-order coefficient functions (yadism) and evolution (EKO's kernels)."""
