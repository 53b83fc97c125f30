"""What a container has said, as Docker sends it: frames, however they are cut and however many come at
once.
"""

import pytest

from codehub.adapters.docker.frames import HEADER, frames


class Stream:
    """What was sent, in pieces of this size."""

    def __init__(self, data: bytes, piece: int) -> None:
        self._data = data
        self._piece = piece
        self.reads = 0

    async def read(self, size: int) -> bytes:
        self.reads += 1
        size = min(size, self._piece)
        part, self._data = self._data[:size], self._data[size:]
        return part


def framed(*payloads: bytes) -> bytes:
    return b"".join(HEADER.pack(1, len(payload)) + payload for payload in payloads)


async def payloads_of(stream: Stream) -> list[bytes]:
    return [payload async for payload in frames(stream)]  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", [1, 3, 8, 9, 1000])
async def test_words_come_out_in_order_however_they_are_cut(piece: int) -> None:
    payloads = (b"one\n", b"", b"two\n", b"x" * 100)
    assert b"".join(await payloads_of(Stream(framed(*payloads), piece))) == b"".join(payloads)


async def test_what_ends_in_the_middle_of_a_frame_ends_there() -> None:
    assert b"".join(await payloads_of(Stream(framed(b"one\n", b"two\n")[:-2], 1000))) == b"one\ntw"


async def test_very_many_small_frames_are_told_as_they_come_and_not_one_by_one() -> None:
    stream = Stream(framed(*[b"x"] * 50_000), 1 << 20)
    pieces = await payloads_of(stream)
    assert b"".join(pieces) == b"x" * 50_000
    assert len(pieces) == stream.reads - 1 < 10
