"""Whether the GPUs wait for storage, for what, and what to do next: rules over what was observed in a span of time."""
