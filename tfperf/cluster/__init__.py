"""Work given out to processes: on this machine, or through Dask on a cluster."""
