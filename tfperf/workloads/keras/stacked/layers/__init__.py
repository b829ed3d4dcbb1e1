"""One file for each kind of layer."""
