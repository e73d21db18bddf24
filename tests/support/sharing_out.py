"""Which process of a run takes which file of tests: the first two all of them, further ones only tests without a session.

A SparkSession takes a process half a minute and three gigabytes, and two keep two cores four fifths busy. A further
process begins with programs that have a Spark of their own, most of which wait, and goes on with tests without Spark.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_WITH_SESSIONS = ("gw0", "gw1")
_WITHOUT_SESSION = ("tests/programs/", "tests/unit/")


class SharingOut(LoadFileScheduling):
    """Gives a file to the process that is free, in the order of the command line."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node.gateway.id not in _WITH_SESSIONS:
            found = (file for folder in _WITHOUT_SESSION for file in self.workqueue if file.startswith(folder))
            file = next(found, None)
            if file is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
