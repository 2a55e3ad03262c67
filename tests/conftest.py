"""Generated tests run the same cases every time, so that a failure is of the change and not of chance.

ACCELMARK_EXPLORE=1 looks for new cases instead; what it finds becomes a test of its own.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("steady", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("explore" if os.environ.get("ACCELMARK_EXPLORE") else "steady")

# A shell starts what runs in its background deaf to Ctrl-C, and so would be all that the tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
