"""Loads data ahead of a run, called again and again by a state machine."""
