"""RQ: `push` or `work`."""

import sys

import jobs
from redis import Redis
from rq import Queue, SimpleWorker

redis = Redis(port=jobs.PORT)
queue = Queue(connection=redis)

if sys.argv[1] == "push":
    jobs.push(lambda number: queue.enqueue("jobs.ran", number, result_ttl=0))
else:
    SimpleWorker([queue], connection=redis).work(logging_level="ERROR")
