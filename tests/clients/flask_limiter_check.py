"""Flask-Limiter: each strategy lets five requests through."""

import jobs
from flask import Flask
from flask_limiter import Limiter

for strategy in ["fixed-window", "moving-window", "sliding-window-counter"]:
    app = Flask(__name__)
    limiter = Limiter(
        lambda: "client", app=app, storage_uri=jobs.URL, strategy=strategy, key_prefix=strategy
    )

    @app.get("/")
    @limiter.limit("5/hour")
    def page():
        return "page"

    client = app.test_client()
    told = [client.get("/").status_code for _ in range(7)]
    assert told == [200] * 5 + [429] * 2, (strategy, told)
