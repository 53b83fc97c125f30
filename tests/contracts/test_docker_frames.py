"""What a container has said, as Docker sends it: frames, however they are cut and however many come at once."""

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


def framed(*words: bytes) -> bytes:
    return b"".join(HEADER.pack(1, len(word)) + word for word in words)


async def said(stream: Stream) -> list[bytes]:
    return [words async for words in frames(stream)]  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", [1, 3, 8, 9, 1000])
async def test_words_come_out_in_order_however_they_are_cut(piece: int) -> None:
    words = (b"one\n", b"", b"two\n", b"x" * 100)
    assert b"".join(await said(Stream(framed(*words), piece))) == b"".join(words)


async def test_what_ends_in_the_middle_of_a_frame_ends_there() -> None:
    assert b"".join(await said(Stream(framed(b"one\n", b"two\n")[:-2], 1000))) == b"one\ntw"


async def test_very_many_small_frames_are_told_as_they_come_and_not_one_by_one() -> None:
    stream = Stream(framed(*[b"x"] * 50_000), 1 << 20)
    told = await said(stream)
    assert b"".join(told) == b"x" * 50_000
    assert len(told) == stream.reads - 1 < 10
