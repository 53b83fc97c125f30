"""Names of backends."""

import pytest

from codehub.core.workspace import StorageBackend


def test_minio_is_another_name_of_the_object_store() -> None:
    assert StorageBackend("minio") is StorageBackend.OBJECT_STORE


def test_any_other_name_is_refused() -> None:
    with pytest.raises(ValueError, match="floppy"):
        StorageBackend("floppy")
