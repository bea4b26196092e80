"""A daemon thread that runs somebody's function, so that one that never returns does not take us with it."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any


class Worker:
    """One thread for all calls of a box; a call that runs out of time leaves the thread behind and starts a new one."""

    def __init__(self) -> None:
        self._start()

    def call(self, function: Callable[[], Any], seconds: float) -> Any:
        """Give what function gives.

        Raises:
            TimeoutError: when that takes longer than seconds.
            BaseException: whatever function raises, SystemExit and its kin included.
        """
        answers: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        self._work.put((function, answers))
        try:
            fine, value = answers.get(timeout=max(seconds, 1e-3))
        except Empty:
            self._work.put(None)  # the lost thread ends if it ever comes back
            self._start()
            raise TimeoutError from None
        if not fine:
            raise value
        return value

    def _start(self) -> None:
        self._work: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=_serve, args=(self._work,), name="ropewalk probe", daemon=True).start()
        weakref.finalize(self, self._work.put, None)


def _serve(work: "SimpleQueue[Any]") -> None:
    while (job := work.get()) is not None:
        function, answers = job
        try:
            answers.put((True, function()))
        except BaseException as error:
            answers.put((False, error))
        del job, function, answers


@dataclass(slots=True)
class Meter:
    """What all copies of a box have used together."""

    calls: int = 0
    seconds: float = 0.0
    worker: Worker = field(default_factory=Worker)
