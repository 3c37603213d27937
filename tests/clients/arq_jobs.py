"""arq: `push` or `work`."""

import asyncio
import sys

import jobs
from arq import create_pool, run_worker
from arq.connections import RedisSettings


async def ran(_context, number):
    jobs.ran(number)


class Worker:
    functions = [ran]
    redis_settings = RedisSettings(port=jobs.PORT, conn_retries=1000, conn_retry_delay=0.1)
    job_timeout = 2  # after which another worker takes a job that was begun
    keep_result = 0
    poll_delay = 0.05


def push():
    loop = asyncio.new_event_loop()
    pool = loop.run_until_complete(create_pool(Worker.redis_settings))

    def enqueue(number):
        # What it answers where the connection was lost meanwhile: the job may not be there.
        if loop.run_until_complete(pool.enqueue_job("ran", number)) is None:
            raise ConnectionError

    jobs.push(enqueue)


if sys.argv[1] == "push":
    push()
else:
    asyncio.set_event_loop(asyncio.new_event_loop())
    run_worker(Worker)
