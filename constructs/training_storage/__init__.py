"""Training Storage: describe a GPU training workload, get the AWS storage that keeps its GPUs busy."""
