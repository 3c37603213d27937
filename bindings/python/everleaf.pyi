"""An embedded, ordered key-value store for persistent memory.

Keys are bytes or int, by the map; a str is taken as its UTF-8. Values are bytes; a str is taken
likewise. What is returned is bytes or int.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import Any, Literal, TypeVar, Union, final, overload

__all__ = [
    "Batch",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "Entries",
    "Error",
    "FullError",
    "LockedError",
    "Snapshot",
    "Store",
    "Transaction",
    "Tree",
    "View",
    "__version__",
    "restore",
]
__version__: str

_Key = Union[bytes, bytearray, memoryview, str, int]
_Data = Union[bytes, bytearray, memoryview, str]
_Ttl = Union[float, timedelta]
_T = TypeVar("_T")

def restore(path: str | PathLike[str], dump: str | PathLike[str]) -> int:
    """Fills the empty pool at `path` from what `Store.dump` wrote; returns the number of entries.

    The pool is there, with the kind of keys of the dump, and nobody has it open.
    """

class Error(Exception):
    """What a store refuses; the sentence says why, and what to do."""

class FullError(Error):
    """No room is left, in the pool or on the disk."""

class CorruptError(Error):
    """The pool is damaged."""

class ConflictError(Error):
    """Others wrote what a transaction had read, or it expired; run it again."""

class ClosedError(Error):
    """The store is closed."""

class LockedError(Error):
    """The pool is open elsewhere; close it there first."""

@final
class Entries(Iterator[_T]):
    """An iterator. It shows each key that is there all the time; it is not a snapshot."""

    def __iter__(self) -> Entries[_T]: ...
    def __next__(self) -> _T: ...

class View:
    """A map that is read: a Tree, or one of a Snapshot. A collections.abc.Mapping."""

    @overload
    def __getitem__(self, key: _Key, /) -> bytes: ...
    @overload
    def __getitem__(self, key: slice, /) -> Entries[tuple[Any, bytes]]:
        """`tree[a:b]`: as `range(a, b)`."""
    def __contains__(self, key: _Key, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Entries[Any]: ...
    def __reversed__(self) -> Entries[Any]: ...
    def keys(self) -> Entries[Any]:
        """The keys in order."""
    def values(self) -> Entries[bytes]:
        """The values in the order of their keys."""
    def items(self) -> Entries[tuple[Any, bytes]]:
        """Keys and values in the order of the keys."""
    def range(
        self, start: _Key | None = None, stop: _Key | None = None, *, reverse: bool = False
    ) -> Entries[tuple[Any, bytes]]:
        """Keys and values from `start` on and before `stop`; None is no bound."""
    def prefix(self, prefix: _Data, *, reverse: bool = False) -> Entries[tuple[Any, bytes]]:
        """Keys and values of the keys that begin with `prefix`."""
    @overload
    def get(self, key: _Key) -> bytes | None: ...
    @overload
    def get(self, key: _Key, default: _T) -> bytes | _T: ...
    def ttl(self, key: _Key) -> float | None:
        """How many seconds the value lives on; None if it stays. KeyError if the key is absent."""

@final
class Snapshot(View):
    """A store as it was at one moment; it ends with a `with` block. A reader that is slow while
    much changes loses it: then it raises Error, and another one can be taken."""

    def tree(self, name: str) -> View:
        """The map of a name, as it was then. KeyError if there is none."""
    def close(self) -> None: ...
    def __enter__(self) -> Snapshot: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

class Tree(View):
    """A map: `store.tree(name)`, or the store itself. A collections.abc.MutableMapping."""

    def __setitem__(self, key: _Key, value: _Data, /) -> None: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    @overload
    def pop(self, key: _Key) -> bytes: ...
    @overload
    def pop(self, key: _Key, default: _T) -> bytes | _T: ...
    def popitem(self) -> tuple[Any, bytes]:
        """Removes and returns the entry with the greatest key, the last in order."""
    def setdefault(self, key: _Key, default: _Data) -> bytes: ...
    def update(self, entries: Mapping[Any, _Data] | Iterable[tuple[_Key, _Data]]) -> None:
        """Stores all of the entries, or none."""
    def put(self, key: _Key, value: _Data, ttl: _Ttl | None = None) -> None:
        """Stores a value; with a `ttl`, in seconds or a timedelta, it expires once that passed."""
    def with_ttl(self, ttl: _Ttl | Literal["keep"] | None) -> Tree:
        """The same map, whose writes let values expire so: all of its own, and what a batch or a
        transaction is given it for as `tree`. None: never; "keep": when the value before would
        have. Without it a `compare_and_swap` keeps the expiry, and what stores a value clears it.
        """
    def touch(self, key: _Key, ttl: _Ttl) -> bool:
        """Lets the value live for `ttl` from now on, and tells whether the key is there."""
    def persist(self, key: _Key) -> bool:
        """Lets the value stay for ever, and tells whether the key is there."""
    def clear(self) -> None: ...
    def compare_and_swap(self, key: _Key, expected: _Data | None, new: _Data | None) -> bool:
        """Stores `new` if the value is `expected`, and tells whether it did. None is no entry."""

@final
class Store(Tree):
    """A pool file that is open.

    `flag`, as in `dbm`: "c" opens the pool or makes it, "w" opens it, "x" makes it, "r" opens it to
    read. With `control_socket` other processes of this user, and of root, can read the pool while
    it is open here to write, by a socket beside it. The rest is for a pool that is made: `keys` is
    bytes or int, `size` (1 MiB) and `max_size` are in bytes, `durability` is "immediate",
    "buffered", "buffered=MS" or "process".
    """

    def __new__(
        cls,
        path: str | PathLike[str],
        flag: Literal["c", "w", "x", "r"] = "c",
        *,
        keys: type[bytes] | type[int] | None = None,
        engine: str | None = None,
        durability: str | None = None,
        size: int | None = None,
        max_size: int | None = None,
        control_socket: bool = False,
    ) -> Store: ...
    def tree(self, name: str, *, keys: type[bytes] | type[int] | None = None) -> Tree:
        """The map of a name, which is made if there is none."""
    def trees(self) -> list[str]:
        """The names of the maps."""
    def drop_tree(self, name: str) -> bool:
        """Removes a map, and tells whether there was one."""
    def batch(self) -> Batch:
        """Writes that happen together or not at all, at the end of a `with` block."""
    def transaction(self) -> Transaction:
        """Reads and writes that happen at one moment or not at all, at the end of a `with` block."""
    def transact(self, work: Callable[[Transaction], _T]) -> _T:
        """Calls `work` with a transaction, again if others wrote what it had read, or it expired.

        `work` reads and writes through the transaction only, and does not commit it.
        """
    def snapshot(self) -> Snapshot:
        """The store as it is now, to be read while it changes."""
    def copy(self, path: str | PathLike[str]) -> int:
        """Writes the store, as it is now, to a new pool; returns the number of entries."""
    def dump(self, path: str | PathLike[str]) -> int:
        """Writes the entries, as they are now, to a new file for `restore`; returns how many."""
    def check(self) -> dict[str, Any]:
        """Tests the whole pool; others wait meanwhile. `ok`, `keys` (how many were read),
        `violations` (what is wrong, a sentence each), `leaked_blocks`."""
    def statistics(self) -> dict[str, Any]:
        """`engine`, `durability` (the strongest failure that writes survive), `durability_mode`,
        `log` (whether there is one), and sizes: `entries` (of all maps, and their names),
        `height`, `leaves`, `inner_nodes`, `fill` (0 to 1, or None), and `dram_bytes`,
        `used_bytes`, `free_bytes`, `total_bytes`, `max_bytes`."""
    def remove_expired(self) -> int:
        """Removes the values that have expired, and returns how many."""
    def no_control_socket(self) -> str | None:
        """Why there is no control socket although one was asked for; everything else works."""
    def sync(self) -> None:
        """Returns when everything done before is durable."""
    def close(self) -> None: ...
    def __enter__(self) -> Store: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Batch:
    """Writes that are gathered, and done at the end of a `with` block, all or none."""

    def put(
        self, key: _Key, value: _Data, ttl: _Ttl | None = None, *, tree: Tree | None = None
    ) -> None: ...
    def touch(self, key: _Key, ttl: _Ttl, *, tree: Tree | None = None) -> None:
        """Will let the value that the key has then live for `ttl` from now on."""
    def persist(self, key: _Key, *, tree: Tree | None = None) -> None:
        """Will let the value that the key has then stay for ever."""
    def delete(self, key: _Key, *, tree: Tree | None = None) -> None: ...
    def __setitem__(self, key: _Key, value: _Data, /) -> None: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    def commit(self) -> None: ...
    def __enter__(self) -> Batch: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class Transaction:
    """Reads and writes that happen at one moment. The end of a `with` block commits them, and
    raises ConflictError if others wrote what was read."""

    @overload
    def get(self, key: _Key, *, tree: Tree | None = None) -> bytes | None: ...
    @overload
    def get(self, key: _Key, default: _T, *, tree: Tree | None = None) -> bytes | _T: ...
    def put(
        self, key: _Key, value: _Data, ttl: _Ttl | None = None, *, tree: Tree | None = None
    ) -> None: ...
    def touch(self, key: _Key, ttl: _Ttl, *, tree: Tree | None = None) -> bool:
        """Will let the value live for `ttl` from the transaction's beginning on, and tells whether
        the key is there."""
    def persist(self, key: _Key, *, tree: Tree | None = None) -> bool:
        """Will let the value stay for ever, and tells whether the key is there."""
    def delete(self, key: _Key, *, tree: Tree | None = None) -> bool: ...
    def range(
        self,
        start: _Key | None = None,
        stop: _Key | None = None,
        *,
        reverse: bool = False,
        tree: Tree | None = None,
    ) -> list[tuple[Any, bytes]]: ...
    def prefix(
        self, prefix: _Data, *, reverse: bool = False, tree: Tree | None = None
    ) -> list[tuple[Any, bytes]]: ...
    def __getitem__(self, key: _Key, /) -> bytes: ...
    def __setitem__(self, key: _Key, value: _Data, /) -> None: ...
    def __delitem__(self, key: _Key, /) -> None: ...
    def __contains__(self, key: _Key, /) -> bool: ...
    def commit(self) -> None: ...
    def __enter__(self) -> Transaction: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
