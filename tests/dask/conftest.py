"""Fixtures of the tests of partitions, for tests that need no cluster."""

from tests.partitions.conftest import backend as backend
from tests.partitions.conftest import divide as divide
from tests.partitions.conftest import small_disk as small_disk
from tests.partitions.conftest import small_parts as small_parts
from tests.partitions.conftest import workers as workers
