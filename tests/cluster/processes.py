"""A cluster of real processes on the loopback: folders, programs, and what they say of it."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

from cutter import Cutter


def until(done, seconds, what, every=0.1):
    """Waits until `done` gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        if got := done():
            return got
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds} s: {what}")
        time.sleep(every)


def free_ports(count):
    """Ports below those that the system gives to whoever connects."""
    ports, port = [], random.randrange(15_000, 30_000)
    while len(ports) < count:
        port += 1
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
    return ports


class Node:
    """A folder at a place, and its process while it runs."""

    def __init__(self, place, folder):
        self.place, self.folder = place, folder
        self.process, self.number = None, None

    def lives(self):
        return self.process is not None and self.process.poll() is None


class Cluster:
    """Nodes by their places. What goes wrong is a line of `wrong`."""

    def __init__(self, programs, folder, places, relayed=True):
        self.programs, self.folder = programs, Path(folder)
        fronts, backs = free_ports(places), free_ports(places)
        self.fronts = fronts if relayed else backs
        self.backs, self.nodes, self.wrong, self.made = backs, {}, [], 0
        self.cutter = Cutter(list(zip(fronts, backs))) if relayed else None
        self.secret = self.folder / "secret"

    def address(self, place):
        return f"127.0.0.1:{self.fronts[place]}"

    def addresses(self):
        return ",".join(self.address(place) for place in range(len(self.fronts)))

    def say(self, *words, seconds=60):
        """Runs `everleaf cluster`; its exit code, and what it said."""
        command = [self.programs["everleaf"], "cluster", *map(str, words)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            return -1, f"`{' '.join(command[1:])}` has not ended after {seconds} s"
        return done.returncode, (done.stdout + done.stderr).strip()

    def ask(self, *words, seconds=60):
        """The same of a cluster that runs, by any node that is there."""
        said = (1, "no node runs")
        for node in self.living():
            via = ["--via", self.address(node.place), "--secret", self.secret]
            said = self.say(*words, *via, seconds=seconds)
            if said[0] == 0:
                break
        return said

    def living(self):
        """Those that run and are not stopped, in a random order."""
        nodes = [node for node in self.nodes.values() if node.lives()]
        return random.sample(nodes, len(nodes))

    def new_folder(self, place, root=None):
        self.made += 1
        return (root or self.folder) / f"node-{place}-{self.made}"

    def found(self, place):
        """The first node."""
        folder = self.new_folder(place)
        code, said = self.say("init", folder, "--raft", self.address(place))
        if code:
            raise RuntimeError(f"cluster init: {said}")
        shutil.copy(folder / "secret", self.secret)
        self.start(Node(place, folder))

    def join(self, place, root=None, replaces=None):
        """Makes the folder of another node, and runs it; it joins by itself."""
        folder = self.new_folder(place, root)
        command = ["join"] if replaces is None else ["replace", replaces]
        code, said = self.ask(*command, folder, "--raft", self.address(place))
        if code:
            raise RuntimeError(f"cluster {command[0]}: {said}")
        node = Node(place, folder)
        self.start(node)
        return node

    def command(self, node):
        """What runs a node."""
        back = f"127.0.0.1:{self.backs[node.place]}"
        return [self.programs["cluster_rows"], "serve", node.folder, "--listen", back]

    def number_of(self, node):
        """Its number, once it listens."""
        said = re.match(r"node (\d+) at", self.words_of(node, "stdout").read_text())
        return said and int(said[1])

    def start(self, node):
        """Runs a node, and waits until it listens."""
        self.nodes[node.place] = node
        out, error = self.words_of(node, "stdout"), self.words_of(node, "stderr")
        with open(out, "w") as out, open(error, "a") as error:
            node.process = subprocess.Popen(
                self.command(node), stdout=out, stderr=error, stdin=subprocess.DEVNULL
            )

        def listens():
            if not node.lives():
                raise RuntimeError(f"the node at place {node.place} ended: {self.last_words(node)}")
            return self.number_of(node)

        node.number = until(listens, 30, "a node does not listen", 0.02)
        if self.cutter:
            self.cutter.places[node.number] = node.place
            self.cutter.open(node.place)

    def last_words(self, node):
        words = self.words_of(node, "stderr").read_text()[-500:].strip()
        return f"exit code {node.process.poll()}: {words}"

    def panics(self):
        """What any node has said of a panic of its own."""
        for path in self.folder.glob("node-*.stderr"):
            for line in path.read_text(errors="replace").splitlines():
                if "panicked" in line:
                    yield f"{path.name}: {line}"

    def words_of(self, node, name):
        """Where what it says goes: never on the disk that is full."""
        return self.folder / f"{node.folder.name}.{name}"

    def kill(self, node, how=signal.SIGKILL):
        """Ends the process of a node, and waits for it."""
        node.process.send_signal(how)
        try:
            node.process.wait(30)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"node {node.number} did not end by signal {how} in 30 s")
            node.process.kill()
            node.process.wait()
        self.ended(node)

    def ended(self, node):
        if self.cutter:
            self.cutter.close(node.place)

    def forget(self, node):
        """A node that belongs to the cluster no more."""
        if node.lives():
            self.kill(node)
        shutil.rmtree(node.folder)
        if self.nodes.get(node.place) is node:
            del self.nodes[node.place]

    def status(self):
        """By the leader; none if nobody leads."""
        for node in self.living():
            words = ["status", "--json", "--via", self.address(node.place)]
            code, said = self.say(*words, "--secret", self.secret, seconds=20)
            if code == 0:
                return json.loads(said)
        return None

    def leader(self, seconds=15):
        status = until(self.status, seconds, "nobody leads the cluster")
        return next((it for it in self.living() if it.number == status["leader"]), None)

    def is_settled(self, lag=50):
        """All nodes run, vote, and have nearly everything, and no others are members."""
        status = self.status()
        if not status:
            return None
        members = {member["node"]: member for member in status["nodes"]}
        if set(members) != {node.number for node in self.nodes.values()}:
            return None
        for member in members.values():
            if not member["voter"] or member["trouble"] or member["role"] == "unreachable":
                return None
            if (member["lag_entries"] is None) or member["lag_entries"] > lag:
                return None
        return status

    def settle(self, seconds=30):
        """Waits until it is, or says why not."""
        try:
            return until(self.is_settled, seconds, "the nodes do not settle", 0.2)
        except TimeoutError as late:
            raise TimeoutError(f"{late}: {self.why_not()}") from None

    def why_not(self):
        status = self.status()
        ours = {node.number: node.place for node in self.nodes.values()}
        if not status:
            return f"nobody leads; nodes (number: place) {ours}"
        keys = ("node", "voter", "role", "lag_entries", "silent_ms", "trouble", "matched")
        told = [{key: member[key] for key in keys} for member in status["nodes"]]
        return f"nodes (number: place) {ours}, leader {status['leader']}: {told}"

    def stop_all(self):
        """Followers first: a leader without a majority adds nothing to its log."""
        leader = self.leader()
        for node in sorted(self.nodes.values(), key=lambda node: node is leader):
            self.kill(node, signal.SIGTERM)
            if node.process.returncode != 0:
                self.wrong.append(f"node {node.number} at its end: {self.last_words(node)}")

    def kill_all(self):
        for node in self.nodes.values():
            if node.lives():
                node.process.send_signal(signal.SIGCONT)
                self.kill(node)

    def compare(self):
        """Whether the dumps of all nodes' rows are the same, byte for byte."""
        dumps = {}
        for node in self.nodes.values():
            pools = list(node.folder.glob("state.*.pool"))
            if len(pools) != 1:
                self.wrong.append(f"node {node.number} has {len(pools)} states: {pools}")
                continue
            dump = subprocess.run(
                [self.programs["everleaf"], "dump", pools[0], "-"], capture_output=True
            )
            if dump.returncode:
                self.wrong.append(f"node {node.number}: dump: {dump.stderr.decode().strip()}")
            dumps[node.number] = dump.stdout
        if len(set(dumps.values())) != 1:
            sizes = {number: len(dump) for number, dump in dumps.items()}
            self.wrong.append(f"the dumps differ: {sizes} bytes")
            for number, dump in dumps.items():
                (self.folder / f"dump-{number}").write_bytes(dump)
        return len(next(iter(dumps.values()), b""))


class Served(Cluster):
    """A cluster whose nodes are servers. `faces`: the protocols that they speak."""

    reads = "linearizable"

    def __init__(self, programs, folder, places, relayed=True, faces=("redis", "memcached")):
        super().__init__(programs, folder, places, relayed)
        self.ports = {name: free_ports(places) for name in faces}

    def at(self, name, place):
        return f"127.0.0.1:{self.ports[name][place]}"

    def all_at(self, name):
        return [self.at(name, place) for place in range(len(self.fronts))]

    def command(self, node):
        command = [self.programs["everleaf"], "serve", "--cluster", node.folder]
        command += ["--reads", self.reads]
        for name in self.ports:
            command += [f"--{name}", self.at(name, node.place)]
        return [*command, "--raft-listen", f"127.0.0.1:{self.backs[node.place]}"]

    def number_of(self, node):
        try:
            with socket.create_connection(("127.0.0.1", self.ports["redis"][node.place]), 5) as ask:
                ask.sendall(b"CLUSTER MYID\r\n")
                said = re.match(rb"\$40\r\n(\w{16})", ask.makefile("rb").read(45))
        except OSError:
            return None
        return said and int(said[1], 16)


def programs_of(folder, examples=("cluster_rows", "cluster_load", "linearizable")):
    """The programs in a target directory of cargo, and those that are not there."""
    folder = Path(folder)
    paths = {name: folder / "examples" / name for name in examples}
    paths["everleaf"] = folder / "everleaf"
    missing = [str(path) for path in paths.values() if not os.access(path, os.X_OK)]
    return {name: str(path) for name, path in paths.items()}, missing
