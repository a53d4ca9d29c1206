"""CDK constructs, what people look at."""
