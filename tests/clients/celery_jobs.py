"""Celery: `push` or `work`."""

import sys

import jobs
from celery import Celery

app = Celery("celery_jobs", broker=jobs.URL)
app.conf.update(
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_publish_retry=False,
    task_ignore_result=True,
)


@app.task(name="ran")
def ran(number):
    jobs.ran(number)


if sys.argv[1] == "push":
    jobs.push(ran.delay)
else:
    app.worker_main(["worker", "--pool", "threads", "--concurrency", "4", "--loglevel", "ERROR"])
