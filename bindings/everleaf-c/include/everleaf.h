// Everleaf: an embedded, ordered key-value store for persistent memory. docs/languages.md
//
// Keys and values are bytes with a length; a key or value of length 0 may be NULL. All other
// pointers must be what a function of this file has handed out and nobody has freed, or lead to
// memory of the caller's. A store may be used by many threads at a time, an iterator or a batch by
// one. Strings end with a zero byte. A stack of 512 KiB is enough for every function.
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
  // There is no such key, or no further entry. There is no sentence to it.
  EVERLEAF_NOT_FOUND = 1,
  // What the sentence says; none of the following.
  EVERLEAF_ERROR = 2,
  // An argument cannot be: a NULL, a name that is none, a key or value that is too long.
  EVERLEAF_INVALID_ARGUMENT = 3,
  // No room is left, in the pool or on the disk.
  EVERLEAF_FULL = 4,
  // The pool is damaged.
  EVERLEAF_CORRUPT = 5,
  // There is no pool at the path.
  EVERLEAF_MISSING = 6,
  // There is a file at the path already.
  EVERLEAF_EXISTS = 7,
  // The pool is open already, here or in another process.
  EVERLEAF_LOCKED = 8,
  // The pool was opened to read.
  EVERLEAF_READ_ONLY = 9,
  // A defect of Everleaf. Close the store and open it again.
  EVERLEAF_PANIC = 10,
} everleaf_status;

// Writes that are gathered until `everleaf_batch_commit` does all of them or none, whatever
// crash comes. A later one sees what an earlier one does.
typedef struct everleaf_batch everleaf_batch;

// Entries in the order of their keys. It shows, in order, every key that is present all the time,
// and each value as it was at some moment.
typedef struct everleaf_iterator everleaf_iterator;

// An opened pool: an ordered map from keys to values.
typedef struct everleaf_store everleaf_store;

// How a pool is made. Zero and NULL, `everleaf_options options = {0}`, are the defaults.
typedef struct everleaf_options {
  // Bytes of the file at first. 0: 1 MiB; it grows by itself.
  uint64_t size_bytes;
  // Bytes that the file may grow to. 0: as much as addresses can be had for.
  uint64_t max_size_bytes;
  // The engine; docs/guide.md has their names. NULL: fptree-c.
  const char *engine;
  // `immediate`, `buffered`, `buffered=MS` or `process`. NULL: the strongest that there is.
  const char *durability;
} everleaf_options;

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

// Closes a store, which must not be used again, whatever this returns. Its iterators and batches
// stay to be freed; all else that they are asked fails. With the defaults a process that dies
// loses nothing either. In a process that was forked after the store was opened every call fails,
// this one too, and the store goes on in the process that opened it; the pool stays locked until
// the forked one has ended or runs another program. NULL is ignored.
enum everleaf_status everleaf_close(struct everleaf_store *store);

// Returns when everything done before is durable. With the defaults each write is when it returns.
enum everleaf_status everleaf_sync(const struct everleaf_store *store);

// Stores a value, in place of the one that there may be.
enum everleaf_status everleaf_put(const struct everleaf_store *store,
                                  const void *key,
                                  size_t key_bytes,
                                  const void *value,
                                  size_t value_bytes);

// Copies a value: `*value` is to be freed by `everleaf_free`, and a zero byte follows its last
// byte, so that text can be printed as it is. EVERLEAF_NOT_FOUND if there is no such key.
enum everleaf_status everleaf_get(const struct everleaf_store *store,
                                  const void *key,
                                  size_t key_bytes,
                                  char **value,
                                  size_t *value_bytes);

// Frees a value. NULL is ignored.
void everleaf_free(char *value);

// EVERLEAF_OK if there is such a key, else EVERLEAF_NOT_FOUND.
enum everleaf_status everleaf_contains(const struct everleaf_store *store,
                                       const void *key,
                                       size_t key_bytes);

// Removes a key. EVERLEAF_NOT_FOUND if there is none.
enum everleaf_status everleaf_remove(const struct everleaf_store *store,
                                     const void *key,
                                     size_t key_bytes);

// Number of keys.
enum everleaf_status everleaf_count(const struct everleaf_store *store, uint64_t *keys);

// The entries from the key `from` on and before the key `to`, or the greatest first if `backward`.
// A NULL is no bound.
enum everleaf_status everleaf_range(const struct everleaf_store *store,
                                    const void *from,
                                    size_t from_bytes,
                                    const void *to,
                                    size_t to_bytes,
                                    bool backward,
                                    struct everleaf_iterator **iterator);

// The entries whose keys begin with `prefix`, or the greatest first if `backward`.
enum everleaf_status everleaf_prefix(const struct everleaf_store *store,
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

// Begins a batch.
enum everleaf_status everleaf_batch_new(const struct everleaf_store *store,
                                        struct everleaf_batch **batch);

// Will store a value, in place of the one that there may be.
enum everleaf_status everleaf_batch_put(struct everleaf_batch *batch,
                                        const void *key,
                                        size_t key_bytes,
                                        const void *value,
                                        size_t value_bytes);

// Will remove a key, if it is present then.
enum everleaf_status everleaf_batch_remove(struct everleaf_batch *batch,
                                           const void *key,
                                           size_t key_bytes);

// Does all writes of a batch, as durable as a put when it returns, or none if it fails. The batch
// is freed, whatever this returns.
enum everleaf_status everleaf_batch_commit(struct everleaf_batch *batch);

// Frees a batch and does nothing of it. NULL is ignored.
void everleaf_batch_free(struct everleaf_batch *batch);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* EVERLEAF_H */
