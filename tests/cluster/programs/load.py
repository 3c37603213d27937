"""Stores numbered keys by a client, as fast as one thread and a short pause allow.

load.py KIND PREFIX HOST:PORT...

Prints the number of each key that was acknowledged, and `error` where a write was not; ends when
its input does. A number is never used again: nobody knows whether a write was done that failed.
"""

import subprocess
import sys
import threading
import time

PAUSE = 0.003


def ends(address):
    host, port = address.rsplit(":", 1)
    return host, int(port)


def plain(addresses):
    """One connection, to another node after each error, as an application would do it."""
    import redis

    clients = [
        redis.Redis(*ends(address), socket_timeout=5, retry=None) for address in addresses
    ]

    def put(key, value):
        try:
            clients[0].set(key, value)
        except Exception:
            clients.append(clients.pop(0))
            raise

    return put


def cluster(addresses):
    from redis.cluster import ClusterNode, RedisCluster

    nodes = [ClusterNode(*ends(address)) for address in addresses]
    return RedisCluster(startup_nodes=nodes, socket_timeout=5).set


def sentinel(addresses):
    from redis.sentinel import Sentinel

    nodes = Sentinel([ends(address) for address in addresses], socket_timeout=5)
    return nodes.master_for("mymaster", socket_timeout=5).set


def memcache(addresses):
    """Keys are spread over all nodes."""
    from pymemcache.client.hash import HashClient

    nodes = [ends(address) for address in addresses]
    client = HashClient(nodes, timeout=5, connect_timeout=5, retry_attempts=0, dead_timeout=0.2)

    def put(key, value):
        if not client.set(key, value, noreply=False):
            raise RuntimeError("it was not stored")

    return put


def libmemcached(addresses):
    import pylibmc

    behaviors = {"ketama": True, "remove_failed": 1, "retry_timeout": 1, "dead_timeout": 1}
    client = pylibmc.Client(addresses, behaviors=behaviors)

    def put(key, value):
        if not client.set(key, value):
            raise RuntimeError("it was not stored")

    return put


def cli(addresses):
    """`redis-cli -c`, a process for each write."""

    def put(key, value):
        host, port = ends(addresses[0])
        command = ["redis-cli", "-c", "-h", host, "-p", str(port), "set", key, value]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        if done.stdout.strip() != "OK":
            addresses.append(addresses.pop(0))
            raise RuntimeError(done.stdout + done.stderr)

    return put


def main():
    kind, prefix, *addresses = sys.argv[1:]
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    put, number = None, 0
    while not ended.is_set():
        try:
            put = put or globals()[kind](addresses)
            put(f"{prefix}{number}", str(number))
            print(number, flush=True)
        except Exception as error:
            print("error", " ".join(f"{type(error).__name__}: {error}".split()), flush=True)
            time.sleep(0.1)
        number += 1
        time.sleep(PAUSE)


main()
