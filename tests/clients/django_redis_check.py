"""django-redis: a cache, its numbers, its patterns and its locks."""

import jobs
from django.conf import settings

settings.configure(
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": jobs.URL}}
)

from django.core.cache import cache  # noqa: E402

cache.set("a", {"b": [1, 2]}, timeout=60)
assert cache.get("a") == {"b": [1, 2]} and 0 < cache.ttl("a") <= 60
cache.set("n", 1)
assert cache.incr("n", 5) == 6 and cache.add("n", 1) is False
cache.set_many({f"many:{i}": i for i in range(100)})
assert len(cache.get_many([f"many:{i}" for i in range(100)])) == 100
assert cache.delete_pattern("many:*") == 100
with cache.lock("lock", timeout=5):
    assert not cache.lock("lock", timeout=5, blocking_timeout=0.1).acquire()
assert cache.lock("lock", timeout=5, blocking_timeout=1).acquire()
cache.clear()
assert cache.get("a") is None
