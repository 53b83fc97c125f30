"""A home to measure with: a directory, a size and a number of files go in, seeded files that compress to
35-45 % come out.
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path

_SEED = 20_240_229
_POOL_BYTES = 48 << 20
_FILES_PER_DIRECTORY = 100
# Text of this vocabulary compresses to a third; what is random does not compress at all (images, packed
# objects).
_VOCABULARY_SIZE = 6_000
_RANDOM_SHARE = 0.09


@dataclass(frozen=True)
class Corpus:
    home: Path
    bytes: int
    files: int


def make_corpus(directory: Path, *, size: int = 1_000_000_000, files: int = 20_000) -> Corpus:
    """Return the corpus of this size, made before or now. It is complete when its mark is there."""
    corpus_directory = directory / f"corpus-{size}-{files}"
    home, mark = corpus_directory / "home", corpus_directory / "complete"
    if not mark.exists():
        _fill(home, size, files)
        mark.touch()
    return Corpus(home, size, files)


def _fill(home: Path, size: int, files: int) -> None:
    dice = random.Random(_SEED)
    text, noise = _text(dice), dice.randbytes(_POOL_BYTES // 8)
    sizes = _sizes(dice, size, files)
    for number, length in enumerate(sizes):
        parent = (
            home
            / f"project-{number // (_FILES_PER_DIRECTORY * 10):03}"
            / f"module-{number // _FILES_PER_DIRECTORY % 10}"
        )
        if number % _FILES_PER_DIRECTORY == 0:
            parent.mkdir(parents=True, exist_ok=True)
        noisy = int(length * _RANDOM_SHARE)
        parts = (_slice(dice, text, length - noisy), _slice(dice, noise, noisy))
        (parent / f"file-{number:06}.txt").write_bytes(b"".join(parts))


def _sizes(dice: random.Random, size: int, files: int) -> list[int]:
    """Many small files and a few large ones, as in a home; together exactly `size`."""
    weights = [dice.lognormvariate(0, 1.2) for _ in range(files)]
    scale = size / sum(weights)
    sizes = [int(weight * scale) for weight in weights]
    sizes[0] += size - sum(sizes)
    return sizes


def _text(dice: random.Random) -> bytes:
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    vocabulary = ["".join(dice.choices(letters, k=dice.randint(2, 11))) for _ in range(_VOCABULARY_SIZE)]
    pool: list[str] = []
    length = 0
    while length < _POOL_BYTES:
        line = " ".join(dice.choices(vocabulary, k=dice.randint(3, 14))) + "\n"
        pool.append(line)
        length += len(line)
    return "".join(pool).encode()


def _slice(dice: random.Random, pool: bytes, length: int) -> bytes:
    """Take `length` bytes of the pool from anywhere, around its end if need be."""
    start = dice.randrange(len(pool))
    part = pool[start : start + length]
    while len(part) < length:
        part += pool[: length - len(part)]
    return part


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--files", type=int, default=20_000)
    options = parser.parse_args()
    print(make_corpus(options.directory, size=options.size, files=options.files))


if __name__ == "__main__":
    main()
