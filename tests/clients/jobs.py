"""What the programs of queues share: jobs are numbers, and a worker writes down each that it runs."""

import itertools
import os
import time

PORT = int(os.environ["PORT"])
URL = f"redis://127.0.0.1:{PORT}/0"


def push(enqueue):
    """Pushes numbers until it is ended, and prints those that were acknowledged."""
    for number in itertools.count():
        try:
            enqueue(number)
        except Exception:  # the server is down: nobody was told that this one is kept
            time.sleep(0.05)
            continue
        print(number, flush=True)


def ran(number):
    """A job."""
    file = os.open(os.environ["RAN"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{number}\n".encode())
    os.close(file)
