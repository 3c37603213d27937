// Everleaf: an embedded, ordered key-value store for persistent memory. docs/languages.md
//
// Keys and values are bytes with a length; a key or value of length 0 may be NULL. All other
// pointers must be what a function of this file has handed out and nobody has freed, or lead to
// memory of the caller's. A store, a tree and a snapshot may be used by many threads at a time, an
// iterator, a batch or a transaction by one. Strings end with a zero byte. A stack of 512 KiB is
// enough for every function.
//
// A write has happened wholly or not at all, whatever crash comes, and it is durable when its
// function returns, unless a weaker `durability` was chosen.
//
// Every function that can fail returns a status; `everleaf_last_error` has the sentence to it.
// What is to be handed out is written only with EVERLEAF_OK.

#ifndef EVERLEAF_H
#define EVERLEAF_H

// Made by cbindgen of the sources in bindings/everleaf-c: change those.

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// What a function returns.
typedef enum everleaf_status {
  // It is done.
  EVERLEAF_OK = 0,
  // There is no such key or tree, or no further entry. There is no sentence to it.
  EVERLEAF_NOT_FOUND = 1,
  // What the sentence says; none of the following.
  EVERLEAF_ERROR = 2,
  // An argument cannot be: a NULL, a name that is none, a key or value that is too long.
  EVERLEAF_INVALID_ARGUMENT = 3,
  // No room is left, in the pool or on the disk.
  EVERLEAF_FULL = 4,
  // The pool is damaged.
  EVERLEAF_CORRUPT = 5,
  // There is no pool, or no dump, at the path.
  EVERLEAF_MISSING = 6,
  // There is a file at the path already.
  EVERLEAF_EXISTS = 7,
  // The pool is open already, here or in another process.
  EVERLEAF_LOCKED = 8,
  // The pool was opened to read, or the tree is of a snapshot.
  EVERLEAF_READ_ONLY = 9,
  // A defect of Everleaf. Close the store and open it again.
  EVERLEAF_PANIC = 10,
  // Others were first: they have written what a transaction had read, or the value is not what
  // the caller expected. Nothing was written; read again.
  EVERLEAF_CONFLICT = 11,
} everleaf_status;

// When the values expire that are written through a tree of `everleaf_tree_with_expiry`.
typedef enum everleaf_expiry {
  // Never.
  EVERLEAF_EXPIRY_NEVER = 0,
  // So many milliseconds after the write, 1 at least; in a batch after the call that adds it, in
  // a transaction after its beginning.
  EVERLEAF_EXPIRY_AFTER = 1,
  // At this time, in milliseconds since 1970.
  EVERLEAF_EXPIRY_AT = 2,
  // When the value that is replaced would have; never where there is none.
  EVERLEAF_EXPIRY_KEPT = 3,
} everleaf_expiry;

// Writes that are gathered until `everleaf_batch_commit` does all of them or none, whatever
// crash comes. A later one sees what an earlier one does.
typedef struct everleaf_batch everleaf_batch;

// Entries in the order of their keys. It shows, in order, every key that is present all the time,
// and each value as it was at some moment; of a snapshot and of a transaction it shows their
// moment.
typedef struct everleaf_iterator everleaf_iterator;

// A store, all its trees included, as it was at one moment, to be read while others write. What
// they replace meanwhile is kept in DRAM for it. After 256 MiB the snapshot is lost: reads of it
// fail then, and another one can be taken.
typedef struct everleaf_snapshot everleaf_snapshot;

// An opened pool: an ordered map from keys to values, with named ones beside it.
typedef struct everleaf_store everleaf_store;

// Reads and writes that happen at one moment or not at all, whatever other threads do and whatever
// crash comes. Nothing is locked meanwhile: what it reads and what it writes is kept in DRAM, and
// the commit writes, if everything that was read is still so. If not, it is EVERLEAF_CONFLICT, and
// so is a read that can be of no one moment with those before: begin another transaction, and do
// all again. Reads see what the transaction has written itself.
typedef struct everleaf_transaction everleaf_transaction;

// How a pool is made; of one that is there `durability` and `control_socket` count. Zero and NULL,
// `everleaf_options options = {0}`, are the defaults.
typedef struct everleaf_options {
  // Bytes of the file at first. 0: 1 MiB; it grows by itself.
  uint64_t size_bytes;
  // Bytes that the file may grow to. 0: as much as addresses can be had for.
  uint64_t max_size_bytes;
  // The engine; docs/guide.md has their names. NULL: fptree-c.
  const char *engine;
  // `immediate`, `buffered`, `buffered=MS` or `process`. NULL: the strongest that there is.
  const char *durability;
  // Whether other processes of this user, and of root, can read the pool while it is open here,
  // by a socket beside it, `POOL.sock`: `everleaf info`, `get`, `copy` and others do. Whether
  // there is one is what `everleaf_control_socket` tells.
  bool control_socket;
} everleaf_options;

// An ordered map from keys to values: a named tree of a store, or a tree as a snapshot has it. A
// store is one, too: what takes an `everleaf_tree *` takes an `everleaf_store *`, and means the
// store's own tree, which has no name. What takes an `everleaf_store *` refuses a tree, by
// EVERLEAF_INVALID_ARGUMENT.
typedef struct everleaf_store everleaf_tree;

// How large a store is, and what it keeps of a write. The texts end with a zero byte.
typedef struct everleaf_statistics {
  // The engine.
  char engine[32];
  // The strongest failure that writes survive: `power-fail`, `process-crash` or `none`.
  char durability[32];
  // When a write that has returned is durable: as `durability` of `everleaf_options`.
  char durability_mode[32];
  // Whether there is a log beside the pool.
  bool log;
  // Entries of a leaf that are used, on average: 0 to 1. -1: the engine cannot tell.
  double fill;
  // The keys of all trees, those of expired values included, and the names of the trees.
  uint64_t entries;
  // Levels of the index, its leaves included.
  uint64_t height;
  // Leaves of the index.
  uint64_t leaves;
  // Inner nodes of the index.
  uint64_t inner_nodes;
  // Bytes of DRAM that the index takes.
  uint64_t dram_bytes;
  // Bytes of the pool that are in use.
  uint64_t used_bytes;
  // Bytes of the pool that are free, without growing it.
  uint64_t free_bytes;
  // Bytes of the pool.
  uint64_t total_bytes;
  // Bytes that the pool may grow to.
  uint64_t max_bytes;
} everleaf_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Why the last call of this thread that failed has failed: one sentence, which says what to do.
// Empty if none has. It lasts until the next call of this thread that fails.
const char *everleaf_last_error(void);

// Opens a pool to read and write.
enum everleaf_status everleaf_open(const char *pool, struct everleaf_store **store);

// Opens a pool to read; several processes may do so while none writes.
enum everleaf_status everleaf_open_read_only(const char *pool, struct everleaf_store **store);

// Makes a pool and opens it. `options` may be NULL.
enum everleaf_status everleaf_create(const char *pool,
                                     const struct everleaf_options *options,
                                     struct everleaf_store **store);

// Opens a pool to read and write, or makes it if there is none. `options` may be NULL.
enum everleaf_status everleaf_open_or_create(const char *pool,
                                             const struct everleaf_options *options,
                                             struct everleaf_store **store);

// Closes a store, which must not be used again, whatever this returns. What was made of it (trees,
// iterators, batches, transactions, snapshots) stays to be freed; all else that it is asked fails.
// With the defaults a process that dies loses nothing either. In a process that was forked after
// the store was opened every call fails, this one too, and the store goes on in the process that
// opened it; the pool stays locked until the forked one has ended or runs another program. NULL is
// ignored.
enum everleaf_status everleaf_close(struct everleaf_store *store);

// Returns when everything done before is durable. With the defaults each write is when it returns.
enum everleaf_status everleaf_sync(const struct everleaf_store *store);

// EVERLEAF_ERROR, with the reason as its sentence, if `control_socket` was asked for and there is
// none, because something is in its place, for instance. Everything else works then.
enum everleaf_status everleaf_control_socket(const struct everleaf_store *store);

// Opens the tree of a name, to be freed by `everleaf_tree_free`. EVERLEAF_NOT_FOUND if there is
// none, EVERLEAF_INVALID_ARGUMENT if its keys are numbers, which other languages have.
enum everleaf_status everleaf_tree_open(const struct everleaf_store *store,
                                        const char *name,
                                        everleaf_tree **tree);

// As `everleaf_tree_open`, and makes the tree if there is none: EVERLEAF_READ_ONLY if the pool was
// opened to read. A store has at most 65,536 trees.
enum everleaf_status everleaf_tree_open_or_create(const struct everleaf_store *store,
                                                  const char *name,
                                                  everleaf_tree **tree);

// EVERLEAF_OK if there is a tree of that name, else EVERLEAF_NOT_FOUND.
enum everleaf_status everleaf_tree_exists(const struct everleaf_store *store, const char *name);

// Removes the tree of a name with all that is in it. EVERLEAF_NOT_FOUND if there is none. From the
// first moment on there is no such tree, whatever crash comes; its entries are then removed a part
// at a time. Handles of it stay to be freed; all else that they are asked fails.
enum everleaf_status everleaf_tree_drop(const struct everleaf_store *store,
                                        const char *name);

// The names of all trees, in order, as they are now: the keys that the iterator shows. Names that
// were given in Rust may have zero bytes.
enum everleaf_status everleaf_tree_names(const struct everleaf_store *store,
                                         struct everleaf_iterator **iterator);

// The same tree, whose writes let values expire so, in the same step: `expiry` is an
// `everleaf_expiry`, and `ms` the milliseconds that two of them need. It is used like the other
// one, also for batches and transactions, and is to be freed by `everleaf_tree_free`. Through a
// tree that was opened by its name, `everleaf_compare_and_swap` keeps the expiry, and what stores
// a value clears it. What has a `ttl_ms`, touches or persists goes by that.
enum everleaf_status everleaf_tree_with_expiry(const everleaf_tree *tree,
                                               unsigned int expiry,
                                               uint64_t ms,
                                               everleaf_tree **with_expiry);

// Frees a tree, which stays in the store. NULL is ignored. It is not for stores.
void everleaf_tree_free(everleaf_tree *tree);

// Stores a value, in place of the one that there may be.
enum everleaf_status everleaf_put(const everleaf_tree *tree,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes);

// Stores a value that expires `ttl_ms` milliseconds from now on, 1 at least: the key is absent
// then, and its room is given back by `everleaf_remove_expired`, by the next write of the key, or
// when the pool is full. A later `everleaf_put` of the key makes a value that stays.
enum everleaf_status everleaf_put_for(const everleaf_tree *tree,
                                      const void *key,
                                      size_t key_bytes,
                                      const void *value,
                                      size_t value_bytes,
                                      uint64_t ttl_ms);

// Stores a value if the key is absent, else EVERLEAF_CONFLICT. Of several threads that do so one
// stores its value.
enum everleaf_status everleaf_put_if_absent(const everleaf_tree *tree,
                                            const void *key,
                                            size_t key_bytes,
                                            const void *value,
                                            size_t value_bytes);

// Compare and swap: stores `value` if the value of the key is `expected`, else EVERLEAF_CONFLICT.
// As `expected` NULL is an absent key, and as `value` it removes the key; a value of length 0 is
// a pointer that is not NULL. The new value expires when the old one would have. Of several
// threads that expect the same one succeeds.
enum everleaf_status everleaf_compare_and_swap(const everleaf_tree *tree,
                                               const void *key,
                                               size_t key_bytes,
                                               const void *expected,
                                               size_t expected_bytes,
                                               const void *value,
                                               size_t value_bytes);

// Copies a value: `*value` is to be freed by `everleaf_free`, and a zero byte follows its last
// byte, so that text can be printed as it is. EVERLEAF_NOT_FOUND if there is no such key.
enum everleaf_status everleaf_get(const everleaf_tree *tree,
                                  const void *key,
                                  size_t key_bytes,
                                  char **value,
                                  size_t *value_bytes);

// Frees a value. NULL is ignored.
void everleaf_free(char *value);

// EVERLEAF_OK if there is such a key, else EVERLEAF_NOT_FOUND.
enum everleaf_status everleaf_contains(const everleaf_tree *tree,
                                       const void *key,
                                       size_t key_bytes);

// How many milliseconds the value of a key lives on; UINT64_MAX: it stays. EVERLEAF_NOT_FOUND if
// there is no such key.
enum everleaf_status everleaf_ttl(const everleaf_tree *tree,
                                  const void *key,
                                  size_t key_bytes,
                                  uint64_t *ttl_ms);

// Lets the value of a key expire `ttl_ms` milliseconds from now on, 1 at least, whatever expiry it
// had. The value is written once more. EVERLEAF_NOT_FOUND if there is no such key.
enum everleaf_status everleaf_touch(const everleaf_tree *tree,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t ttl_ms);

// Lets the value of a key stay for ever. The value is written once more. EVERLEAF_NOT_FOUND if
// there is no such key.
enum everleaf_status everleaf_persist(const everleaf_tree *tree,
                                      const void *key,
                                      size_t key_bytes);

// Removes a key. EVERLEAF_NOT_FOUND if there is none.
enum everleaf_status everleaf_remove(const everleaf_tree *tree,
                                     const void *key,
                                     size_t key_bytes);

// Number of keys.
enum everleaf_status everleaf_count(const everleaf_tree *tree, uint64_t *keys);

// The entries from the key `from` on and before the key `to`, or the greatest first if `backward`.
// A NULL is no bound.
enum everleaf_status everleaf_range(const everleaf_tree *tree,
                                    const void *from,
                                    size_t from_bytes,
                                    const void *to,
                                    size_t to_bytes,
                                    bool backward,
                                    struct everleaf_iterator **iterator);

// The entries whose keys begin with `prefix`, or the greatest first if `backward`.
enum everleaf_status everleaf_prefix(const everleaf_tree *tree,
                                     const void *prefix,
                                     size_t prefix_bytes,
                                     bool backward,
                                     struct everleaf_iterator **iterator);

// Shows the next entry, until the next call with this iterator. EVERLEAF_NOT_FOUND at the end.
enum everleaf_status everleaf_next(struct everleaf_iterator *iterator,
                                   const void **key,
                                   size_t *key_bytes,
                                   const void **value,
                                   size_t *value_bytes);

// Frees an iterator. NULL is ignored.
void everleaf_iterator_free(struct everleaf_iterator *iterator);

// Begins a batch, of writes to a tree.
enum everleaf_status everleaf_batch_new(const everleaf_tree *tree,
                                        struct everleaf_batch **batch);

// Makes what follows write to another tree of the same store.
enum everleaf_status everleaf_batch_on(struct everleaf_batch *batch, const everleaf_tree *tree);

// Will store a value, in place of the one that there may be.
enum everleaf_status everleaf_batch_put(struct everleaf_batch *batch,
                                        const void *key,
                                        size_t key_bytes,
                                        const void *value,
                                        size_t value_bytes);

// Will store a value that expires `ttl_ms` milliseconds from now on, as `everleaf_put_for`.
enum everleaf_status everleaf_batch_put_for(struct everleaf_batch *batch,
                                            const void *key,
                                            size_t key_bytes,
                                            const void *value,
                                            size_t value_bytes,
                                            uint64_t ttl_ms);

// Will let the value that a key has then expire `ttl_ms` milliseconds from now on, 1 at least. An
// absent key is left alone.
enum everleaf_status everleaf_batch_touch(struct everleaf_batch *batch,
                                          const void *key,
                                          size_t key_bytes,
                                          uint64_t ttl_ms);

// Will let the value that a key has then stay for ever. An absent key is left alone.
enum everleaf_status everleaf_batch_persist(struct everleaf_batch *batch,
                                            const void *key,
                                            size_t key_bytes);

// Will remove a key, if it is present then.
enum everleaf_status everleaf_batch_remove(struct everleaf_batch *batch,
                                           const void *key,
                                           size_t key_bytes);

// Does all writes of a batch, as durable as a put when it returns, or none if it fails. The batch
// is freed, whatever this returns.
enum everleaf_status everleaf_batch_commit(struct everleaf_batch *batch);

// Frees a batch and does nothing of it. NULL is ignored.
void everleaf_batch_free(struct everleaf_batch *batch);

// Begins a transaction, which is ended by `everleaf_transaction_commit` or
// `everleaf_transaction_rollback`.
enum everleaf_status everleaf_transaction_begin(const struct everleaf_store *store,
                                                struct everleaf_transaction **transaction);

// Copies a value of a tree of the store, or of its own, as `everleaf_get`.
enum everleaf_status everleaf_transaction_get(struct everleaf_transaction *transaction,
                                              const everleaf_tree *tree,
                                              const void *key,
                                              size_t key_bytes,
                                              char **value,
                                              size_t *value_bytes);

// Will store a value, in place of the one that there may be.
enum everleaf_status everleaf_transaction_put(struct everleaf_transaction *transaction,
                                              const everleaf_tree *tree,
                                              const void *key,
                                              size_t key_bytes,
                                              const void *value,
                                              size_t value_bytes);

// Will store a value that expires `ttl_ms` milliseconds after the transaction began, as
// `everleaf_put_for`.
enum everleaf_status everleaf_transaction_put_for(struct everleaf_transaction *transaction,
                                                  const everleaf_tree *tree,
                                                  const void *key,
                                                  size_t key_bytes,
                                                  const void *value,
                                                  size_t value_bytes,
                                                  uint64_t ttl_ms);

// Will let the value of a key expire `ttl_ms` milliseconds after the transaction began, 1 at
// least, whatever expiry it had. EVERLEAF_NOT_FOUND if there is no such key. It reads the value.
enum everleaf_status everleaf_transaction_touch(struct everleaf_transaction *transaction,
                                                const everleaf_tree *tree,
                                                const void *key,
                                                size_t key_bytes,
                                                uint64_t ttl_ms);

// Will let the value of a key stay for ever. EVERLEAF_NOT_FOUND if there is no such key. It reads
// the value.
enum everleaf_status everleaf_transaction_persist(struct everleaf_transaction *transaction,
                                                  const everleaf_tree *tree,
                                                  const void *key,
                                                  size_t key_bytes);

// Will remove a key. EVERLEAF_NOT_FOUND if there is none, which is a read.
enum everleaf_status everleaf_transaction_remove(struct everleaf_transaction *transaction,
                                                 const everleaf_tree *tree,
                                                 const void *key,
                                                 size_t key_bytes);

// The entries of a range, as `everleaf_range`. All of them are read at once, and writers may have
// to wait meanwhile. The iterator does not show what is written later.
enum everleaf_status everleaf_transaction_range(struct everleaf_transaction *transaction,
                                                const everleaf_tree *tree,
                                                const void *from,
                                                size_t from_bytes,
                                                const void *to,
                                                size_t to_bytes,
                                                bool backward,
                                                struct everleaf_iterator **iterator);

// The entries whose keys begin with `prefix`, read as by `everleaf_transaction_range`.
enum everleaf_status everleaf_transaction_prefix(struct everleaf_transaction *transaction,
                                                 const everleaf_tree *tree,
                                                 const void *prefix,
                                                 size_t prefix_bytes,
                                                 bool backward,
                                                 struct everleaf_iterator **iterator);

// Does all writes of a transaction, as durable as a put when it returns, or none if it fails:
// EVERLEAF_CONFLICT if others have written what it had read. The transaction is freed, whatever
// this returns.
enum everleaf_status everleaf_transaction_commit(struct everleaf_transaction *transaction);

// Frees a transaction and does nothing of it. NULL is ignored.
void everleaf_transaction_rollback(struct everleaf_transaction *transaction);

// Takes a snapshot. It waits until the writes that are under way have ended.
enum everleaf_status everleaf_snapshot_new(const struct everleaf_store *store,
                                           struct everleaf_snapshot **snapshot);

// A tree of the store, or its own, as it was then: `*view` is read as every tree is, refuses
// writes by EVERLEAF_READ_ONLY, and is to be freed by `everleaf_tree_free`. It does not keep the
// snapshot: once that is freed, reading fails.
enum everleaf_status everleaf_snapshot_tree(const struct everleaf_snapshot *snapshot,
                                            const everleaf_tree *tree,
                                            everleaf_tree **view);

// Ends a snapshot, and gives back what was kept for it. NULL is ignored.
void everleaf_snapshot_free(struct everleaf_snapshot *snapshot);

// Removes the values that have expired, of all trees, and gives their room back. `removed`, how
// many there were, may be NULL. After an opening it may have to wait until the pool was read once.
enum everleaf_status everleaf_remove_expired(const struct everleaf_store *store,
                                             uint64_t *removed);

// Copies the store, all trees included, as it is now, to a new pool, while others go on reading
// and writing: EVERLEAF_EXISTS if there is a file. The copy is durable on return; if this fails
// there is none. `entries`, how many were copied, may be NULL. What others replace meanwhile is
// kept in DRAM, up to 4 GiB; beyond that it fails.
enum everleaf_status everleaf_copy(const struct everleaf_store *store,
                                   const char *pool,
                                   uint64_t *entries);

// As `everleaf_copy`, to a new file that `everleaf_restore` and `everleaf restore` read.
enum everleaf_status everleaf_dump(const struct everleaf_store *store,
                                   const char *dump,
                                   uint64_t *entries);

// Fills a pool, which is there, empty, and open nowhere, from what `everleaf_dump` wrote. What was
// restored is durable on return. If the dump is damaged the pool is empty again; if a crash comes
// the pool is refused until it is restored anew. `entries`, how many there were, may be NULL.
enum everleaf_status everleaf_restore(const char *pool,
                                      const char *dump,
                                      uint64_t *entries);

// Reads and checks the whole pool; others wait meanwhile. EVERLEAF_CORRUPT if anything is wrong:
// the sentence to it has a line for each thing. `keys`, how many the trees have, may be NULL.
enum everleaf_status everleaf_check(const struct everleaf_store *store,
                                    uint64_t *keys);

// Tells how large a store is now. It reads a line of memory for each 4 KiB of the pool.
enum everleaf_status everleaf_get_statistics(const struct everleaf_store *store,
                                             struct everleaf_statistics *statistics);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVERLEAF_H */
