// Transactions. The argument is a pool to make.
#include "check.h"

static everleaf_transaction *begun(everleaf_store *store) {
    everleaf_transaction *tx;
    CHECK(everleaf_transaction_begin(store, &tx) == EVERLEAF_OK);
    return tx;
}

static void reads(everleaf_transaction *tx, everleaf_tree *tree, const char *key,
                  const char *expected) {
    char *value;
    size_t bytes;
    CHECK(everleaf_transaction_get(tx, tree, key, strlen(key), &value, &bytes) == EVERLEAF_OK);
    CHECK(bytes == strlen(expected) && strcmp(value, expected) == 0);
    everleaf_free(value);
}

static void committed(everleaf_store *store, everleaf_tree *carts) {
    everleaf_transaction *tx = begun(store);
    everleaf_iterator *iterator;
    char *value;
    size_t bytes;
    uint64_t ttl_ms;
    CHECK(put(store, "apple", "1") == EVERLEAF_OK && put(store, "pear", "5") == EVERLEAF_OK);
    CHECK(everleaf_put_for(carts, "bob", 3, "pear", 4, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_transaction_get(tx, carts, "ann", 3, &value, &bytes) == EVERLEAF_NOT_FOUND);
    everleaf_transaction_rollback(tx);

    tx = begun(store);
    reads(tx, store, "apple", "1");
    CHECK(everleaf_transaction_put(tx, store, "apple", 5, "0", 1) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put_for(tx, carts, "ann", 3, "apple", 5, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_transaction_remove(tx, store, "pear", 4) == EVERLEAF_OK);
    CHECK(everleaf_transaction_remove(tx, store, "pear", 4) == EVERLEAF_NOT_FOUND);
    reads(tx, store, "apple", "0");
    CHECK(everleaf_transaction_touch(tx, store, "apple", 5, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_transaction_touch(tx, store, "pear", 4, 3600000) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_transaction_persist(tx, store, "pear", 4) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_transaction_persist(tx, carts, "bob", 3) == EVERLEAF_OK);
    CHECK(everleaf_transaction_range(tx, store, NULL, 0, NULL, 0, false, &iterator) == EVERLEAF_OK);
    shows(iterator, "apple");
    CHECK(everleaf_transaction_prefix(tx, carts, "a", 1, true, &iterator) == EVERLEAF_OK);
    CHECK(is(store, "apple", "1") == EVERLEAF_OK && is(carts, "ann", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_transaction_commit(tx) == EVERLEAF_OK);
    shows(iterator, "ann"); // It has been read already.
    CHECK(is(store, "apple", "0") == EVERLEAF_OK && is(carts, "ann", "apple") == EVERLEAF_OK);
    CHECK(is(store, "pear", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_ttl(carts, "ann", 3, &ttl_ms) == EVERLEAF_OK && ttl_ms <= 3600000);
    CHECK(everleaf_ttl(store, "apple", 5, &ttl_ms) == EVERLEAF_OK && ttl_ms <= 3600000);
    CHECK(everleaf_ttl(carts, "bob", 3, &ttl_ms) == EVERLEAF_OK && ttl_ms == UINT64_MAX);
}

static void not_committed(everleaf_store *store) {
    everleaf_transaction *tx = begun(store), *other = begun(store);
    char *value;
    size_t bytes;
    CHECK(everleaf_transaction_put(tx, store, "apple", 5, "7", 1) == EVERLEAF_OK);
    everleaf_transaction_rollback(tx);
    everleaf_transaction_rollback(NULL);
    CHECK(is(store, "apple", "0") == EVERLEAF_OK);

    tx = begun(store);
    reads(tx, store, "apple", "0");
    reads(other, store, "apple", "0");
    CHECK(everleaf_transaction_put(tx, store, "apple", 5, "1", 1) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put(other, store, "apple", 5, "2", 1) == EVERLEAF_OK);
    CHECK(everleaf_transaction_commit(tx) == EVERLEAF_OK);
    REFUSED(everleaf_transaction_commit(other), EVERLEAF_CONFLICT, "run it again");
    CHECK(is(store, "apple", "1") == EVERLEAF_OK);

    // What can be of no one moment with what was read is not read.
    CHECK(put(store, "pear", "1") == EVERLEAF_OK);
    tx = begun(store);
    reads(tx, store, "apple", "1");
    CHECK(put(store, "apple", "2") == EVERLEAF_OK && put(store, "pear", "2") == EVERLEAF_OK);
    CHECK(everleaf_transaction_get(tx, store, "pear", 4, &value, &bytes) == EVERLEAF_CONFLICT);
    CHECK(everleaf_transaction_commit(tx) == EVERLEAF_CONFLICT);
}

static void wrong(everleaf_store *store, everleaf_store *other, everleaf_tree *carts) {
    everleaf_transaction *tx, *none;
    everleaf_iterator *iterator;
    everleaf_snapshot *snapshot;
    everleaf_tree *then;
    char *value;
    size_t bytes;
    CHECK(everleaf_transaction_begin(NULL, &none) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_transaction_begin(carts, &none) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_transaction_begin(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_transaction_commit(NULL) == EVERLEAF_INVALID_ARGUMENT);
    tx = begun(store);
    everleaf_status given[] = {
        everleaf_transaction_get(tx, NULL, "a", 1, &value, &bytes),
        everleaf_transaction_get(NULL, store, "a", 1, &value, &bytes),
        everleaf_transaction_get(tx, store, "a", 1, NULL, &bytes),
        everleaf_transaction_put(tx, store, NULL, 1, "", 0),
        everleaf_transaction_put(NULL, store, "a", 1, "", 0),
        everleaf_transaction_put_for(tx, store, "a", 1, "", 0, 0),
        everleaf_transaction_put_for(NULL, store, "a", 1, "", 0, 1),
        everleaf_transaction_remove(NULL, store, "a", 1),
        everleaf_transaction_touch(tx, store, "a", 1, 0),
        everleaf_transaction_touch(NULL, store, "a", 1, 1),
        everleaf_transaction_persist(tx, store, NULL, 1),
        everleaf_transaction_persist(NULL, store, "a", 1),
        everleaf_transaction_prefix(tx, store, NULL, 1, false, &iterator),
        everleaf_transaction_range(NULL, store, NULL, 0, NULL, 0, false, &iterator),
        everleaf_transaction_range(tx, store, NULL, 0, NULL, 0, false, NULL),
    };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        CHECK(given[i] == EVERLEAF_INVALID_ARGUMENT);
    everleaf_status status = everleaf_transaction_put(tx, other, "a", 1, "", 0);
    REFUSED(status, EVERLEAF_INVALID_ARGUMENT, "another store");
    CHECK(everleaf_snapshot_new(store, &snapshot) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_tree(snapshot, store, &then) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put(tx, then, "a", 1, "", 0) == EVERLEAF_READ_ONLY);
    everleaf_tree_free(then);
    everleaf_snapshot_free(snapshot);
    CHECK(everleaf_transaction_commit(tx) == EVERLEAF_OK);
    CHECK(is(store, "a", "") == EVERLEAF_NOT_FOUND);
}

int main(int argc, char **argv) {
    everleaf_store *store, *other;
    everleaf_tree *carts;
    char path[4096], *value;
    size_t bytes;
    CHECK(argc == 2 && everleaf_create(argv[1], NULL, &store) == EVERLEAF_OK);
    snprintf(path, sizeof path, "%s.other", argv[1]);
    CHECK(everleaf_create(path, NULL, &other) == EVERLEAF_OK);
    CHECK(everleaf_tree_open_or_create(store, "carts", &carts) == EVERLEAF_OK);
    committed(store, carts);
    not_committed(store);
    wrong(store, other, carts);
    // What is left over when its store is closed fails, and no more.
    everleaf_transaction *tx = begun(store), *late = begun(store);
    CHECK(everleaf_transaction_put(tx, store, "late", 4, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    REFUSED(everleaf_transaction_commit(tx), EVERLEAF_ERROR, "the store is closed");
    CHECK(everleaf_transaction_get(late, carts, "ann", 3, &value, &bytes) == EVERLEAF_ERROR);
    everleaf_transaction_rollback(late);
    everleaf_tree_free(carts);
    CHECK(everleaf_close(other) == EVERLEAF_OK);
    puts("all is well");
    return 0;
}
