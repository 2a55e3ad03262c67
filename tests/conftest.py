"""Generated tests run the same cases every time, so that a failure is of the change and not of chance.

ACCELMARK_EXPLORE=1 looks for new cases instead; what it finds becomes a test of its own.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("explore" if os.environ.get("ACCELMARK_EXPLORE") else "steady")
