"""The function that works the steps of a release."""
