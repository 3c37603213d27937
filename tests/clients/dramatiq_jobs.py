"""Dramatiq: `push` or `work`."""

import sys
import threading

import dramatiq
import jobs
from dramatiq.brokers.redis import RedisBroker

broker = RedisBroker(port=jobs.PORT)
dramatiq.set_broker(broker)


@dramatiq.actor
def ran(number):
    jobs.ran(number)


if sys.argv[1] == "push":
    jobs.push(ran.send)
else:
    dramatiq.Worker(broker, worker_threads=4).start()
    threading.Event().wait()
