"""Spark's daemon of Python workers that count the steps of a driver which is to be killed."""

from __future__ import annotations

import support.python_daemon  # noqa: F401
from hudi_vector import worker_daemon
from support.killed import arm_worker

if __name__ == "__main__":
    arm_worker()
    worker_daemon.run()
