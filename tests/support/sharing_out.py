"""Which process of a run takes which file of tests: the first two all of them, further ones only tests without Spark.

A SparkSession takes a process half a minute and three gigabytes, and two keep two cores nine tenths busy. Tests without
Spark, many of which wait for a store that answers late, fill the rest.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_WITH_SESSIONS = ("gw0", "gw1")
_WITHOUT_SPARK = "tests/unit/"


class SharingOut(LoadFileScheduling):
    """Gives a file to the process that is free, in the order of the command line."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id not in _WITH_SESSIONS:
            file = next((file for file in self.workqueue if file.startswith(_WITHOUT_SPARK)), None)
            if file is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
