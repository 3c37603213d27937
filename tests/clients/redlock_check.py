"""redlock-py: one holder at a time."""

import jobs
from redlock import Redlock

locks = Redlock([{"host": "127.0.0.1", "port": jobs.PORT}], retry_count=1)
held = locks.lock("thing", 10_000)
assert held and not locks.lock("thing", 1000)
locks.unlock(held)
assert locks.lock("thing", 1000)
