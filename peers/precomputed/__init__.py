"""Precomputed volumes of other tools, and what Shardine makes of them."""
