"""Archiving and restoring 1 GB in 20,000 files against `tar | zstd -3 -T0` and `zstd -d | tar -x` on the same
files, in turns.

Ours reads every archive back, checks and hashes it, scans every header, and has everything on the disk before
it counts; the peers do none of that. Then: by how much a larger home makes codehub itself larger. Where:
CODEHUB_BENCH_DIR, else the system's own.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from benchmarks.corpus import Corpus, make_corpus

from codehub.adapters.local.storage import LocalStorage
from codehub.adapters.objectstore.archives import ObjectArchives
from codehub.adapters.objectstore.store import Objects
from codehub.adapters.system.machine import SystemIdentity
from codehub.ports.storage import Amount, Home

REPETITIONS = 3
ARCHIVE_RATIO_MIN = 0.7
RESTORE_RATIO_MIN = 0.8
GROWTH_MB_MAX = 64
_MB = 1_000_000


class Ours:
    """A storage with one home, filled with a corpus."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._objects = Objects(f"file://{directory}/archives", installation="bench")
        self._storage = LocalStorage(
            directory / "data",
            installation="bench",
            archives=ObjectArchives(self._objects),
            identity=SystemIdentity(),
            is_in_use=_never,
        )
        self._home = _new_home()
        self._volume_id = ""

    @property
    def path(self) -> Path:
        return self._directory / "data" / self._home.home_store_key

    async def fill(self, corpus: Corpus) -> None:
        await self._objects.prepare()
        await self._storage.prepare()
        self._volume_id = await self._storage.provision(self._home)
        self.path.rmdir()
        corpus.home.rename(self.path)

    async def give_back(self, corpus: Corpus) -> None:
        self.path.rename(corpus.home)

    async def archive(self) -> str:
        return await self._storage.archive(self._home, self._volume_id, uuid4(), _unheard, _always)

    async def restore(self, key: str) -> None:
        await self._storage.restore(_new_home(), key, _unheard)


async def _never(_workspace_id: UUID) -> bool:
    return False


async def _always() -> datetime:
    return datetime.now(UTC)


def _unheard(_amount: Amount) -> None:
    return


def _new_home() -> Home:
    workspace_id = uuid4()
    return Home(workspace_id, f"users/{uuid4()}/workspaces/{workspace_id}/home")


async def compare(corpus: Corpus, directory: Path, repetitions: int) -> None:
    ours = Ours(directory)
    await ours.fill(corpus)
    durations_s: dict[str, list[float]] = {name: [] for name in ("archive", "tar", "restore", "untar")}
    keys: list[str] = []
    peer = directory / "peer.tar.zst"

    async def timed(name: str, work: Callable[[], object]) -> None:
        began = time.perf_counter()
        result = work()
        if asyncio.iscoroutine(result):
            keys.append(str(await result))
        durations_s[name].append(time.perf_counter() - began)

    # Nothing is removed before the end: ext4 is slow to make files where many were removed just now.
    for turn in range(repetitions + 1):
        if turn == 1:  # the first turn warms the page cache, and is not counted
            durations_s = {name: [] for name in durations_s}
        _sync()
        await timed("tar", lambda: _shell(f"tar -C {ours.path} -cf - . | zstd -3 -T0 -q -f -o {peer}"))
        _sync()
        await timed("archive", ours.archive)
    packed = peer.stat().st_size
    for turn in range(repetitions):
        target = directory / f"peer-{turn}"
        target.mkdir()
        _sync()
        await timed("untar", partial(_shell, f"zstd -dc {peer} | tar -C {target} -xf -"))
        _sync()
        await timed("restore", lambda: ours.restore(keys[0]))
    await ours.give_back(corpus)
    print(
        f"corpus: {corpus.bytes / _MB:.0f} MB in {corpus.files} files, compressing to "
        f"{packed / corpus.bytes:.0%}"
    )
    _report(
        "archive, read back",
        durations_s["archive"],
        "tar | zstd -3 -T0",
        durations_s["tar"],
        corpus,
        ARCHIVE_RATIO_MIN,
    )
    _report(
        "restore, on disk",
        durations_s["restore"],
        "zstd -d | tar -x",
        durations_s["untar"],
        corpus,
        RESTORE_RATIO_MIN,
    )


def _report(
    name: str, ours: list[float], peer_name: str, peer: list[float], corpus: Corpus, ratio_min: float
) -> None:
    mine, other = statistics.median(ours), statistics.median(peer)
    print(
        f"{name}: {mine:.2f} s ({corpus.bytes / _MB / mine:.0f} MB/s), {peer_name}: {other:.2f} s"
        f" ({corpus.bytes / _MB / other:.0f} MB/s), medians of {len(ours)}"
        f" -> {other / mine:.2f}x (target: at least {ratio_min})"
    )


async def grow(corpus: Corpus, directory: Path) -> None:
    """Archive and restore once, and print how large this process was at its largest.

    Its children are tar, find and bwrap.
    """
    ours = Ours(directory)
    await ours.fill(corpus)
    try:
        await ours.restore(await ours.archive())
    finally:
        await ours.give_back(corpus)
    # Not getrusage, which also counts what the process was before it became this program.
    status = Path("/proc/self/status").read_text()
    print(next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")))


def _measure_growth(directory: Path, size: int, files: int) -> int:
    make_corpus(directory / "codehub-bench", size=size, files=files)
    command = (sys.executable, "-m", "benchmarks.archives", "--grow", f"--size={size}", f"--files={files}")
    output = subprocess.run(
        [*command, f"--directory={directory}"], check=True, capture_output=True, text=True
    ).stdout
    return int(output)


def memory(directory: Path) -> None:
    small, large = (
        _measure_growth(directory, 100 * _MB, 2_000),
        _measure_growth(directory, 2_000 * _MB, 40_000),
    )
    print(
        f"resident memory at its peak: {small / _MB:.0f} MB with a home of 100 MB, {large / _MB:.0f} MB with "
        f"one of 2 GB -> grows by {(large - small) / _MB:.0f} MB (target: at most {GROWTH_MB_MAX})"
    )


def _shell(command: str) -> None:
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True)


def _sync() -> None:
    """Let nobody pay for what the one before has left to write."""
    os.sync()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--directory", type=Path, default=os.environ.get("CODEHUB_BENCH_DIR") or tempfile.gettempdir()
    )
    parser.add_argument("--size", type=int, default=1_000 * _MB)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--grow", action="store_true", help="archive and restore once, and print peak memory")
    options, _ = parser.parse_known_args()
    corpus_directory = Path(options.directory, "codehub-bench")
    corpus = make_corpus(corpus_directory, size=options.size, files=options.files)
    with tempfile.TemporaryDirectory(prefix="run-", dir=corpus_directory) as directory:
        if options.grow:
            asyncio.run(grow(corpus, Path(directory)))
            return
        asyncio.run(compare(corpus, Path(directory), options.repetitions))
    memory(options.directory)
    shutil.rmtree(corpus_directory)


if __name__ == "__main__":
    main()
