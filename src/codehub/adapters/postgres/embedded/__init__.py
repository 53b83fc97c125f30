"""A PostgreSQL 18 of our own under DATA_DIR/postgres: a directory goes in, a server that accepts connections
comes out.
"""

from codehub.adapters.postgres.embedded.address import RunningServer, find_running, has_cluster
from codehub.adapters.postgres.embedded.errors import EmbeddedPostgresError
from codehub.adapters.postgres.embedded.examination import check_embedded
from codehub.adapters.postgres.embedded.locks import owner_of
from codehub.adapters.postgres.embedded.supervisor import EmbeddedPostgres

__all__ = [
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "RunningServer",
    "check_embedded",
    "find_running",
    "has_cluster",
    "owner_of",
]
