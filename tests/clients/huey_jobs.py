"""Huey: `push` or `work`."""

import sys

import jobs
from huey import RedisHuey

huey = RedisHuey("jobs", port=jobs.PORT, results=False)


@huey.task()
def ran(number):
    jobs.ran(number)


if sys.argv[1] == "push":
    jobs.push(ran)
else:
    huey.create_consumer(workers=4).run()
