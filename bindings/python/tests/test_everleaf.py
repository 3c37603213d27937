"""What a dictionary does, and what a store does besides: python -m unittest discover tests"""

import threading
import time
import unittest
from collections.abc import Mapping, MutableMapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import everleaf

MIB = 1 << 20


class Case(unittest.TestCase):
    def setUp(self):
        folder = TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.db = self.open()
        self.addCleanup(self.db.close)

    def open(self, name="a.pool", **options):
        return everleaf.Store(self.folder / name, size=4 * MIB, **options)


class Expiry(Case):
    def test_values_expire(self):
        db = self.db
        db.put("later", "1", ttl=timedelta(hours=1))
        self.assertTrue(0 < db.ttl("later") <= 3600)
        self.assertEqual((db.touch("later", 7200.5), db.touch("none", 1)), (True, False))
        self.assertTrue(0 < db.ttl("later") <= 7200.5)
        self.assertEqual((db.persist("later"), db.persist("none")), (True, False))
        self.assertIsNone(db.ttl("later"))
        self.assertRaises(KeyError, db.ttl, "none")
        for wrong in (-1, 0, float("nan"), float("inf")):
            self.assertRaises(ValueError, db.put, "key", "value", wrong)
        db.put("short", "1", 0.0000001)
        time.sleep(0.01)
        self.assertNotIn("short", db)
        self.assertRaises(TypeError, db.put, "key", "value", "1")

    def test_every_write(self):
        db = self.db
        keeps, brief, stays = db.with_ttl("keep"), db.with_ttl(60), db.with_ttl(None)
        for write in (
            lambda tree: tree.put("a", "2"),
            lambda tree: tree.__setitem__("a", "2"),
            lambda tree: tree.update({"a": "2"}),
            lambda tree: tree.compare_and_swap("a", "1", "2"),
            self.by_batch,
            self.by_transaction,
        ):
            for tree, least, most in ((keeps, 3000, 3600), (brief, 1, 60), (stays, None, None)):
                db.put("a", "1", 3600)
                write(tree)
                left = db.ttl("a")
                self.assertEqual(db["a"], b"2")
                self.assertTrue(left is None if most is None else least < left <= most)
        self.assertEqual((brief.setdefault("lock", "ann"), brief["lock"]), (b"ann", b"ann"))
        self.assertTrue(db.ttl("lock") <= 60)
        self.assertRaises(TypeError, db.with_ttl, "kept")
        self.assertRaises(ValueError, db.with_ttl, 0)

    def by_batch(self, tree):
        with self.db.batch() as batch:
            batch.put("a", "2", tree=tree)

    def by_transaction(self, tree):
        with self.db.transaction() as tx:
            tx.put("a", "2", tree=tree)

    def test_together(self):
        with self.db.batch() as batch:
            batch.put("a", "1", 3600)
        with self.db.transaction() as tx:
            tx.put("b", "2", ttl=3600)
            self.assertEqual((tx.get("c"), tx.get("c", 7), tx.get("a", 7)), (None, 7, b"1"))
        self.assertTrue(self.db.ttl("a") and self.db.ttl("b"))

    def test_touch_and_persist_together(self):
        db, words = self.db, self.db.tree("words")
        for tree in (db, words):
            tree.put("brief", "1", 3600)
            tree["stays"] = "2"
            with db.batch() as batch:
                self.assertIsNone(batch.touch("stays", timedelta(hours=1), tree=tree))
                self.assertIsNone(batch.persist("brief", tree=tree))
                batch.touch("none", 1, tree=tree)
                batch.persist("none", tree=tree)
            self.assertTrue(0 < tree.ttl("stays") <= 3600 and tree.ttl("brief") is None)
            with db.transaction() as tx:
                self.assertIs(tx.touch("brief", 60, tree=tree), True)
                self.assertIs(tx.persist("stays", tree=tree), True)
                self.assertIs(tx.touch("none", 60, tree=tree), False)
                self.assertIs(tx.persist("none", tree=tree), False)
            self.assertTrue(0 < tree.ttl("brief") <= 60 and tree.ttl("stays") is None)
            self.assertEqual((list(tree), tree["brief"]), ([b"brief", b"stays"], b"1"))
        for writes in (db.batch(), db.transaction()):
            self.assertRaises(ValueError, writes.touch, "brief", 0)
            self.assertRaises(TypeError, writes.touch, "brief", None)
            self.assertRaises(TypeError, writes.touch, "brief")


class Snapshots(Case):
    def test_one_moment(self):
        db, words = self.db, self.db.tree("words")
        db["a"], words["oak"] = "1", "Quercus"
        with db.snapshot() as then:
            db["a"], db["b"] = "2", "3"
            del words["oak"]
            self.assertEqual((then["a"], "b" in then, len(then)), (b"1", False, 1))
            self.assertEqual((list(then), list(then.items())), ([b"a"], [(b"a", b"1")]))
            self.assertEqual((list(then["a":]), list(reversed(then))), ([(b"a", b"1")], [b"a"]))
            self.assertEqual(then.get("b", 0), 0)
            words_then = then.tree("words")
            self.assertEqual(dict(words_then.items()), {b"oak": b"Quercus"})
            self.assertRaises(KeyError, then.tree, "none")
            self.assertIsInstance(then, Mapping)
            self.assertNotIsInstance(then, MutableMapping)
            self.assertFalse(hasattr(then, "__setitem__"))
            entries = iter(then)
        self.assertRaises(everleaf.ClosedError, lambda: then["a"])
        self.assertRaises(everleaf.ClosedError, then.tree, "words")
        self.assertRaises(everleaf.Error, lambda: words_then["oak"])
        self.assertRaises(everleaf.Error, list, entries)
        then.close()
        self.assertEqual((db["a"], len(words)), (b"2", 0))


class Backup(Case):
    def test_copy_dump_restore_check(self):
        self.db["oak"] = "Quercus robur"
        checked = self.db.check()
        self.assertEqual((checked["ok"], checked["violations"]), (True, []))
        self.assertEqual(checked["leaked_blocks"], 0)
        statistics = self.db.statistics()
        self.assertEqual(statistics["entries"], 1)
        self.assertTrue(0 < statistics["used_bytes"] <= statistics["total_bytes"])
        self.assertEqual(self.db.copy(self.folder / "copy.pool"), 1)
        self.assertEqual(self.db.dump(self.folder / "dump"), 1)
        self.open("restored.pool").close()
        restored = self.folder / "restored.pool"
        self.assertEqual(everleaf.restore(restored, self.folder / "dump"), 1)
        for name in ("copy.pool", "restored.pool"):
            with self.open(name) as store:
                self.assertEqual(store["oak"], b"Quercus robur")
        with self.assertRaises(FileNotFoundError):
            everleaf.restore(restored, self.folder / "nothing")

    def test_a_pool_that_is_open_is_locked(self):
        self.assertRaises(everleaf.LockedError, self.open)


class Dictionary(Case):
    def test_single_keys(self):
        db = self.db
        db["oak"] = "Quercus robur"
        db[b"ash"] = bytearray(b"Fraxinus")
        self.assertEqual(db[b"oak"], b"Quercus robur")
        self.assertEqual((len(db), "ash" in db, "elm" in db), (2, True, False))
        self.assertEqual((db.get("elm"), db.get("elm", 0)), (None, 0))
        del db["ash"]
        for absent in (lambda: db["ash"], lambda: db.__delitem__("ash"), lambda: db.pop("ash")):
            with self.assertRaises(KeyError) as raised:
                absent()
            self.assertEqual(raised.exception.args, ("ash",))
        self.assertEqual(db.pop("ash", None), None)
        self.assertEqual(db.pop("oak"), b"Quercus robur")
        self.assertEqual(db.setdefault("elm", "Ulmus"), b"Ulmus")
        self.assertEqual(db.setdefault("elm", "other"), b"Ulmus")
        self.assertEqual(db.popitem(), (b"elm", b"Ulmus"))
        self.assertRaises(KeyError, db.popitem)
        self.assertIsInstance(db, MutableMapping)

    def test_popitem_removes_the_last(self):
        self.db.update({"ash": "1", "oak": "2"})
        self.assertEqual(self.db.popitem(), (b"oak", b"2"))

    def test_order(self):
        db = self.db
        db.update({"b": "2", "a": "1", "ab": "3"})
        db.update([("c", memoryview(b"4"))])
        self.assertEqual(list(db), [b"a", b"ab", b"b", b"c"])
        self.assertEqual(list(reversed(db)), [b"c", b"b", b"ab", b"a"])
        self.assertEqual(list(db.values()), [b"1", b"3", b"2", b"4"])
        self.assertEqual(dict(db.items()), {b"a": b"1", b"ab": b"3", b"b": b"2", b"c": b"4"})
        self.assertEqual(list(db["ab":"c"]), [(b"ab", b"3"), (b"b", b"2")])
        self.assertEqual([key for key, _ in db[:"b"]], [b"a", b"ab"])
        self.assertEqual([key for key, _ in db.range("b", reverse=True)], [b"c", b"b"])
        self.assertEqual([key for key, _ in db.prefix("a")], [b"a", b"ab"])
        self.assertRaises(ValueError, lambda: db["a":"b":2])
        db.clear()
        self.assertEqual(len(db), 0)

    def test_keys_that_are_numbers(self):
        with self.open("numbers.pool", keys=int) as db:
            db[300], db[2] = "three hundred", "two"
            self.assertEqual(list(db), [2, 300])
            self.assertEqual(list(db[3:]), [(300, b"three hundred")])
            self.assertRaises(TypeError, lambda: db["two"])
            self.assertRaises(OverflowError, lambda: db[-1])
        self.assertRaises(TypeError, lambda: self.db[1.5])
        self.assertRaises(TypeError, self.db.__setitem__, "key", 1)


class Together(Case):
    def test_a_batch_is_all_or_nothing(self):
        log = self.db.tree("log", keys=int)
        with self.db.batch() as batch:
            batch["ann"] = "70"
            batch.put(1, "ann: 70", tree=log)
            self.assertNotIn("ann", self.db)
        self.assertEqual((self.db["ann"], log[1]), (b"70", b"ann: 70"))
        with self.assertRaises(ZeroDivisionError), self.db.batch() as batch:
            del batch["ann"]
            1 / 0
        self.assertIn("ann", self.db)
        self.assertRaises(everleaf.Error, batch.commit)

    def test_a_transaction_meets_no_other_writer(self):
        db = self.db
        db["stock"] = "1"
        with db.transaction() as tx:
            tx["stock"] = str(int(tx["stock"]) + 1)
            self.assertEqual((tx["stock"], db["stock"]), (b"2", b"1"))
            self.assertEqual(tx.prefix("st"), [(b"stock", b"2")])
        with self.assertRaises(everleaf.ConflictError), db.transaction() as tx:
            tx["stock"] = tx["stock"] + b"0"
            db["stock"] = "5"
        self.assertEqual(db["stock"], b"5")

    def test_threads_count_without_loss(self):
        def count(tx):
            tx["n"] = str(int(tx.get("n") or 0) + 1)
            return tx["n"]

        def work():
            for _ in range(200):
                self.db.transact(count)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(self.db["n"], b"800")
        with self.assertRaises(ZeroDivisionError):
            self.db.transact(lambda tx: 1 / 0)


class Opening(Case):
    def test_flags_and_what_stays(self):
        self.db["a"] = "1"
        self.db.sync()
        self.db.close()
        self.db.close()
        self.assertRaises(everleaf.ClosedError, lambda: self.db["a"])
        self.assertRaises(everleaf.ClosedError, list, self.db)
        path = self.folder / "a.pool"
        self.assertRaises(FileExistsError, everleaf.Store, path, "x")
        self.assertRaises(FileNotFoundError, everleaf.Store, self.folder / "none", "w")
        self.assertRaises(ValueError, everleaf.Store, path, "q")
        with self.assertRaisesRegex(ValueError, "choose one of"):
            everleaf.Store(self.folder / "new", engine="oak")
        with everleaf.Store(path, "r") as db:
            self.assertEqual(db["a"], b"1")
            with self.assertRaisesRegex(everleaf.Error, "opened read-only"):
                db["a"] = "2"

    def test_control_socket(self):
        socket = self.folder / "control.pool.sock"
        for flag in "xcw":  # made or opened
            self.open("control.pool", flag=flag).close()
            self.assertFalse(socket.exists())
            with self.open("control.pool", flag=flag.replace("x", "c"), control_socket=True) as db:
                self.assertTrue(socket.is_socket())
                self.assertIsNone(db.no_control_socket())
            self.assertFalse(socket.exists())
        with self.open("made.pool", flag="x", control_socket=True):
            self.assertTrue((self.folder / "made.pool.sock").is_socket())
        socket.write_text("in the way")
        with self.open("control.pool", control_socket=True) as db:
            self.assertIn("is no socket", db.no_control_socket())

    def test_a_full_pool(self):
        with self.open("full.pool", max_size=4 * MIB) as db:
            self.assertRaises(everleaf.FullError, db.__setitem__, "large", bytes(8 * MIB))

    def test_what_is_kept_keeps_the_store_open(self):
        tree, entries = self.open("b.pool").tree("words"), iter(self.open("c.pool"))
        tree["leaf"] = "1"
        self.assertEqual((tree["leaf"], list(entries)), (b"1", []))
        self.assertRaises(everleaf.Error, self.open, "b.pool")


if __name__ == "__main__":
    unittest.main()
