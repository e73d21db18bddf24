"""The oracle of a listing: the file slices that Hudi's own file-system view shows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from hudi_vector.storage import normalise
from hudi_vector.table.names import parse_log_file

Slice = tuple[str, "str | None", tuple[str, ...]]
"""Partition path, base file's name, log files' names."""


class View:
    """Hudi's view of one table, without the metadata table and with a fresh client."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._hudi = jvm.org.apache.hudi
        self._conf = self._hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
        builder = self._hudi.common.table.HoodieTableMetaClient.builder()
        self.client = builder.setConf(self._conf).setBasePath(path).build()
        self._path = path

    def instants(self) -> list[str]:
        """The requested times of the completed commits on the active timeline."""
        timeline = self.client.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        return [str(instant.requestedTime()) for instant in timeline.getInstants()]

    def slices(self, instant: str) -> list[Slice]:
        """The latest merged slices at an instant.

        Hudi's view of an instant also lists log files of later ones, which its readers then leave out by their
        instant; they are cut here.
        """
        engine = self._hudi.common.engine.HoodieLocalEngineContext(self._conf)
        config = self._hudi.common.config.HoodieMetadataConfig.newBuilder().enable(False).build()
        manager = self._hudi.common.table.view.FileSystemViewManager
        # As Hudi's own readers do. Without the pending compactions on its timeline the view would leave out the
        # log files that were written since one was scheduled.
        timeline = self.client.getCommitsAndCompactionTimeline().filterCompletedAndCompactionInstants()
        view = manager.createInMemoryFileSystemViewWithTimeline(engine, self.client, config, timeline)
        try:
            found = []
            for partition in self._hudi.common.fs.FSUtils.getAllPartitionPaths(engine, self.client, config):
                slices = view.getLatestMergedFileSlicesBeforeOrOn(partition, instant).iterator()
                while slices.hasNext():
                    found.append(self._slice(str(partition), slices.next(), instant))
        finally:
            view.close()
        return sorted(entry for entry in found if entry[1] or entry[2])

    def _slice(self, partition: str, entry: Any, instant: str) -> Slice:
        base = entry.getBaseFile()
        name = str(base.get().getFileName()) if base.isPresent() else None
        logs = []
        listed = entry.getLogFiles().iterator()
        own = int(self.client.getTableConfig().getTableVersion().versionCode()) >= 8
        while listed.hasNext():
            log = str(listed.next().getPath().getName())
            parsed = parse_log_file(log)
            assert parsed is not None
            if not own or parsed.instant <= instant:
                logs.append(log)
        return partition, name, tuple(sorted(logs))


def listed(snapshot: Any) -> list[Slice]:
    """A snapshot of ours in the same form."""
    return sorted(
        (
            entry.partition_path,
            entry.base_file.name if entry.base_file else None,
            tuple(sorted(log.name for log in entry.log_files)),
        )
        for entry in snapshot.file_slices
    )


def source_uri(path: str) -> str:
    """A local path as our tables are named."""
    return normalise(path)
