// Opening and closing, single keys, iterators, batches. The argument is a pool to make.
#include "check.h"

static void opening(const char *pool) {
    everleaf_store *store;
    CHECK(everleaf_open(pool, &store) == EVERLEAF_MISSING);
    CHECK(strstr(everleaf_last_error(), "create one first"));
    everleaf_options options = {.engine = "oak"};
    CHECK(everleaf_create(pool, &options, &store) == EVERLEAF_INVALID_ARGUMENT);
    options = (everleaf_options){.size_bytes = 1 << 20, .max_size_bytes = 1 << 20};
    CHECK(everleaf_create(pool, &options, &store) == EVERLEAF_OK);
    everleaf_store *second;
    CHECK(everleaf_create(pool, NULL, &second) == EVERLEAF_EXISTS);
    CHECK(everleaf_open(pool, &second) == EVERLEAF_LOCKED);
    CHECK(everleaf_open(NULL, &second) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(put(store, "leaf", "a blade of a plant") == EVERLEAF_OK);
    CHECK(everleaf_sync(store) == EVERLEAF_OK);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    CHECK(everleaf_open_read_only(pool, &store) == EVERLEAF_OK);
    CHECK(put(store, "leaf", "") == EVERLEAF_READ_ONLY);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    CHECK(everleaf_close(NULL) == EVERLEAF_OK);
}

static void single_keys(everleaf_store *store) {
    uint64_t keys;
    CHECK(is(store, "leaf", "a blade of a plant") == EVERLEAF_OK);
    CHECK(is(store, "tree", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_put(store, NULL, 0, NULL, 0) == EVERLEAF_OK);
    CHECK(is(store, "", "") == EVERLEAF_OK);
    CHECK(everleaf_contains(store, "leaf", 4) == EVERLEAF_OK);
    CHECK(everleaf_contains(store, "tree", 4) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_count(store, &keys) == EVERLEAF_OK && keys == 2);
    CHECK(everleaf_remove(store, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_remove(store, "", 0) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_put(NULL, "a", 1, "", 0) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_put(store, NULL, 1, "", 0) == EVERLEAF_INVALID_ARGUMENT);
    char *value;
    size_t bytes;
    CHECK(everleaf_get(store, "leaf", 4, NULL, &bytes) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_get(store, "leaf", 4, &value, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_count(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    everleaf_free(NULL);
    char *long_key = calloc(1, 100000);
    everleaf_status status = everleaf_put(store, long_key, 100000, "", 0);
    REFUSED(status, EVERLEAF_INVALID_ARGUMENT, "at most 65,536");
    free(long_key);
    void *large = calloc(1, 2 << 20);
    CHECK(everleaf_put(store, "large", 5, large, 2 << 20) == EVERLEAF_FULL);
    free(large);
}

static void iterators(everleaf_store *store) {
    everleaf_iterator *iterator;
    CHECK(put(store, "a", "1") == EVERLEAF_OK);
    CHECK(put(store, "lea", "2") == EVERLEAF_OK);
    CHECK(everleaf_range(store, NULL, 0, NULL, 0, false, &iterator) == EVERLEAF_OK);
    shows(iterator, "alealeaf");
    CHECK(everleaf_range(store, "b", 1, "leaf", 4, false, &iterator) == EVERLEAF_OK);
    shows(iterator, "lea");
    CHECK(everleaf_prefix(store, "le", 2, true, &iterator) == EVERLEAF_OK);
    shows(iterator, "leaflea");
    everleaf_iterator_free(NULL);
}

static void batches(everleaf_store *store) {
    everleaf_batch *batch;
    CHECK(everleaf_batch_new(store, &batch) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "fern", 4, "new", 3) == EVERLEAF_OK);
    CHECK(everleaf_batch_remove(batch, "a", 1) == EVERLEAF_OK);
    CHECK(is(store, "fern", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_batch_commit(batch) == EVERLEAF_OK);
    CHECK(is(store, "fern", "new") == EVERLEAF_OK);
    CHECK(is(store, "a", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_batch_new(store, &batch) == EVERLEAF_OK);
    CHECK(everleaf_batch_remove(batch, "fern", 4) == EVERLEAF_OK);
    everleaf_batch_free(batch);
    CHECK(is(store, "fern", "new") == EVERLEAF_OK);
}

// What is left over when its store is closed fails, and no more.
static void left_over(everleaf_store *store) {
    everleaf_iterator *iterator;
    everleaf_batch *batch;
    const void *at;
    size_t bytes;
    CHECK(everleaf_prefix(store, NULL, 0, false, &iterator) == EVERLEAF_OK);
    CHECK(everleaf_batch_new(store, &batch) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "late", 4, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    CHECK(everleaf_next(iterator, &at, &bytes, &at, &bytes) == EVERLEAF_ERROR);
    CHECK(strstr(everleaf_last_error(), "the store is closed"));
    everleaf_iterator_free(iterator);
    CHECK(everleaf_batch_commit(batch) == EVERLEAF_ERROR);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    opening(argv[1]);
    everleaf_store *store;
    CHECK(everleaf_open_or_create(argv[1], NULL, &store) == EVERLEAF_OK);
    single_keys(store);
    iterators(store);
    batches(store);
    left_over(store);
    puts("all is well");
    return 0;
}
