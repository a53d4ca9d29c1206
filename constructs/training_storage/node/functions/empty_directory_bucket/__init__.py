"""The function that empties a directory bucket before CloudFormation deletes it."""
