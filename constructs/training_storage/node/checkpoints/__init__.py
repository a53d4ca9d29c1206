"""The life of checkpoints on a hot tier: what is complete, what goes to the lake, and what may be removed."""
