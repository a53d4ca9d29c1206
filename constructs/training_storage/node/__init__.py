"""What runs on training nodes and in Lambda: standard library and boto3 only."""
