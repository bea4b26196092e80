"""How much memory this process has taken at most."""

import sys


def peak_memory() -> int:
    """Give the largest resident size of this process so far, in bytes; 0 where the system does not tell.

    >>> peak_memory() >= 0
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
