"""Differential tests: Shardine and other Zarr implementations on the same random arrays."""
