"""CDK constructs: where data lives."""
