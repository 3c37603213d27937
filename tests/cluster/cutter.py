"""Relays in front of the peer ports of nodes, which cut and delay what nodes say to each other.

Each connection begins with a hello that has the number of the node that has connected, at bytes 26
to 34 (crates/everleaf-raft, hello.rs); a client has 0. So a relay knows both ends of a connection,
and can cut one direction between two nodes: of the connections of both. As on a network, what is
cut is not lost but comes later, unless the connection has ended by then.
"""

import asyncio
import random
import threading

HELLO, NODE = 50, slice(26, 34)
MAGIC = b"evlfpeer"


class Relay:
    """One connection, and the two places that it is between."""

    def __init__(self, cutter, node, place, streams):
        self.cutter, self.node, self.place, self.streams = cutter, node, place, streams

    def between(self):
        """The place that has connected (none: a client), and the one that listens."""
        return self.cutter.places.get(self.node), self.place

    async def pump(self, reader, writer, forward):
        try:
            while chunk := await reader.read(1 << 16):
                await self.pass_by(forward)
                writer.write(chunk)
                await writer.drain()
            await self.pass_by(forward)  # The end is cut too.
        except (ConnectionError, OSError):
            pass
        self.end()

    async def pass_by(self, forward):
        while True:
            source, target = self.between() if forward else self.between()[::-1]
            if (source, target) not in self.cutter.cuts:
                break
            await asyncio.sleep(0.02)
        if source is not None and target is not None:
            most = max(self.cutter.delays.get(place, 0) for place in (source, target))
            if most:
                await asyncio.sleep(random.uniform(most / 4, most))

    def end(self):
        for stream in self.streams:
            stream.close()

    def abort(self):
        for stream in self.streams:
            stream.transport.abort()


class Cutter:
    """All relays. Its methods may be called by any thread."""

    def __init__(self, ports):
        """`ports`: for each place the port that others know, and that of the node."""
        self.ports, self.servers, self.relays = ports, {}, set()
        self.places = {}  # Of nodes, by their numbers.
        self.cuts, self.delays = set(), {}  # Pairs of places; seconds by place.
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def open(self, place):
        """A node listens at its place: let others come."""
        self.call(self._open(place))

    def close(self, place):
        """Its process has ended: connections are refused, as the system would."""
        self.call(self._close(place))

    def cut(self, pairs):
        """Cuts these directions, each a pair (source, target)."""
        self.cuts = set(pairs)

    def heal(self, reset):
        """Nothing is cut or late any more; `reset`: connections that were cut have ended."""
        self.call(self._heal(reset))

    async def _open(self, place):
        front = self.ports[place][0]
        accept = lambda reader, writer: self._accept(place, reader, writer)
        self.servers[place] = await asyncio.start_server(accept, "127.0.0.1", front)

    async def _close(self, place):
        if server := self.servers.pop(place, None):
            server.close()

    async def _heal(self, reset):
        for relay in list(self.relays) if reset else []:
            if self.cuts & {relay.between(), relay.between()[::-1]}:
                relay.abort()
        self.cuts, self.delays = set(), {}

    async def _accept(self, place, reader, writer):
        try:
            hello = await asyncio.wait_for(reader.readexactly(HELLO), 5)
            node = int.from_bytes(hello[NODE], "little") if hello.startswith(MAGIC) else 0
            back = await asyncio.open_connection("127.0.0.1", self.ports[place][1])
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError):
            writer.transport.abort()
            return
        relay = Relay(self, node, place, (writer, back[1]))
        self.relays.add(relay)
        try:
            await relay.pass_by(True)
            back[1].write(hello)
            await asyncio.gather(
                relay.pump(reader, back[1], True), relay.pump(back[0], writer, False)
            )
        finally:
            self.relays.discard(relay)
