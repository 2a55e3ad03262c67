"""`torchrun`, made to end with the process that started it (`python -m accelmark.run.ranks ARGUMENTS`)."""

from __future__ import annotations

import ctypes
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask Linux to end this process when its parent is killed, so that no measurement runs on unseen."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    die_with_parent()
    from torch.distributed.run import main

    main()
