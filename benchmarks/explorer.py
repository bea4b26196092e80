"""How quick and how large the explorer's pages are: rendering in process, and requests a second over loopback.

Every render has another position, so that none is a page seen before. The server runs in a process of its own, kept to
one core where the system can do that; four connections of this process ask it for a bounded time. The last line is one
JSON document. Exits 1 where a page is larger than 60 KB or slower than its aim (not with --no-limits).

    python benchmarks/explorer.py [--runs 100] [--seconds 5] [--no-limits]
"""

import argparse
import http.client
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from ropewalk.explorer import pages
from ropewalk.explorer.state import State

# what is rendered, how long it may take (milliseconds), and how many bytes it may have
PAGES = {"default": ("", 5.0, 60 * 1024), "d=128": ("d=128&window=8192", 12.0, None)}
CONNECTIONS = 4
SERVER = """
import os, socket, sys, uvicorn
from ropewalk.explorer.app import make_app
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # so that asyncio sends at once
listener.bind(("127.0.0.1", 0))
listener.listen(64)
print(listener.getsockname()[1], flush=True)
uvicorn.Server(uvicorn.Config(make_app(), log_level="error", access_log=False)).run(sockets=[listener])
"""


def render(query: str, runs: int) -> tuple[float, int]:
    """Give the median time of a page, in milliseconds, and its size in bytes."""
    state, _ = State.parse(query)
    size = len(pages.simulator(state, (), "en").encode())
    times = []
    for m in range(100, 100 + runs):
        start = time.perf_counter()
        pages.simulator(state.change(m=m), (), "en")
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), size


def requests_a_second(port: int, path: str, seconds: float) -> float:
    """Ask for one page over a few kept connections for some seconds, and count the answers."""
    start = time.perf_counter()

    def ask(number: int) -> int:
        connection, count = http.client.HTTPConnection("127.0.0.1", port, timeout=30), 0
        while time.perf_counter() - start < seconds:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path} answers {answer.status}")
            count += 1
        connection.close()
        return count

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        answered = sum(pool.map(ask, range(CONNECTIONS)))
    return answered / (time.perf_counter() - start)


def main() -> int:
    """Measure, print a table and a line of JSON, and say whether the limits hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=100, help="renders of each page (default 100)")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each path is asked for (default 5)")
    parser.add_argument("--no-limits", action="store_true", help="only measure: a busy machine breaks limits")
    options = parser.parse_args()
    seconds = min(max(options.seconds, 0.1), 60.0)
    result: dict[str, object] = {"python": platform.python_version(), "machine": platform.machine()}
    broken = []
    for name, (query, limit, most) in PAGES.items():
        median, size = render(query, max(1, options.runs))
        print(f"{name:10} {median:6.2f} ms  {size / 1024:6.1f} KB  (aim {limit:g} ms)")
        result[name] = {"ms": round(median, 2), "bytes": size}
        if median > limit or (most is not None and size > most):
            broken.append(name)
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        for name, path in (("page", "/en/"), ("json", "/en/.json"), ("static", "/static/icon.svg")):
            requests_a_second(port, path, 0.3)  # the first answers load templates and the like
            rate = requests_a_second(port, path, seconds)
            print(f"{path:18} {rate:8.0f} requests a second on one core")
            result[f"{name}_requests_a_second"] = round(rate, 1)
    finally:
        server.terminate()
        server.wait(timeout=30)
    result["broken"] = broken
    print(json.dumps(result))
    return 1 if broken and not options.no_limits else 0


if __name__ == "__main__":
    sys.exit(main())
