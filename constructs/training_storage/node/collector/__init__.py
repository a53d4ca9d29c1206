"""What a node tells besides its training: counters of its storage, once a minute, in embedded metric format.

A module for each place that counters come from; all of them are functions from text to numbers. What can't be read is
not known and stands nowhere: a number that is there is right, and nothing here raises.
"""
