"""CDK constructs, who reads the data: network, GPU fleet, EFA, capacity, mounts."""
