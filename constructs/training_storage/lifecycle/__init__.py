"""CDK constructs, how a hot tier comes and goes."""
