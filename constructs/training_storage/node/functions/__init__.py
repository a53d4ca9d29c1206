"""Code of the Lambda functions: each folder is one, standard library and boto3 only."""
