"""``python -m training_storage`` is the command ``training-storage``."""

from __future__ import annotations

import sys

from training_storage.cli import main

if __name__ == "__main__":
    sys.exit(main())
