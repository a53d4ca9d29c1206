"""A plan as one self-contained HTML page for the people who decide: no network, no script, light and dark.

Importing this package loads neither matplotlib nor jinja2: both come with the extra ``report``, and only a page that
is asked for needs them.
"""

from training_storage.report.rendering import render_report

__all__ = ["render_report"]
