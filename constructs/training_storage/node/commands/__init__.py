"""Subcommands of a node's agent, a module each, found by their names.

A module has ``HELP``, ``add_arguments(parser)``, and ``run(arguments, settings, aws, progress)``, which returns the
answer as plain data and raises ``Refusal`` for what it does not do. Names with an underscore in front are no commands.
"""
