// Named trees, batches over several, expiry of every write, snapshots. The argument is a pool to make.
#include "check.h"

static everleaf_tree *opened(everleaf_store *store, const char *name) {
    everleaf_tree *tree;
    CHECK(everleaf_tree_open_or_create(store, name, &tree) == EVERLEAF_OK);
    return tree;
}

static void by_name(everleaf_store *store) {
    everleaf_tree *words, *again;
    everleaf_iterator *iterator;
    uint64_t keys;
    CHECK(everleaf_tree_open(store, "words", &words) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_tree_exists(store, "words") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_tree_drop(store, "words") == EVERLEAF_NOT_FOUND);
    words = opened(store, "words");
    everleaf_tree_free(opened(store, "cities"));
    CHECK(everleaf_tree_exists(store, "words") == EVERLEAF_OK);
    CHECK(everleaf_tree_names(store, &iterator) == EVERLEAF_OK);
    shows(iterator, "citieswords");

    CHECK(put(words, "leaf", "of words") == EVERLEAF_OK);
    CHECK(put(store, "leaf", "of the store") == EVERLEAF_OK);
    CHECK(is(words, "leaf", "of words") == EVERLEAF_OK);
    CHECK(everleaf_put_if_absent(words, "fern", 4, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_range(words, NULL, 0, NULL, 0, false, &iterator) == EVERLEAF_OK);
    shows(iterator, "fernleaf");
    CHECK(everleaf_remove(words, "fern", 4) == EVERLEAF_OK);
    CHECK(everleaf_count(words, &keys) == EVERLEAF_OK && keys == 1);
    CHECK(everleaf_tree_open(store, "words", &again) == EVERLEAF_OK);
    CHECK(is(again, "leaf", "of words") == EVERLEAF_OK);

    CHECK(everleaf_tree_drop(store, "words") == EVERLEAF_OK);
    REFUSED(put(words, "leaf", ""), EVERLEAF_ERROR, "dropped");
    REFUSED(is(again, "leaf", ""), EVERLEAF_ERROR, "dropped");
    everleaf_tree_free(words);
    everleaf_tree_free(again);
    words = opened(store, "words");
    CHECK(everleaf_count(words, &keys) == EVERLEAF_OK && keys == 0);
    everleaf_tree_free(words);
    everleaf_tree_free(NULL);
}

static void wrong(everleaf_store *store) {
    everleaf_tree *tree, *words = opened(store, "words");
    everleaf_iterator *iterator;
    CHECK(everleaf_tree_open(NULL, "a", &tree) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_open(store, NULL, &tree) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_open(store, "words", NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_open_or_create(store, NULL, &tree) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_open_or_create(store, "words", NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_exists(NULL, "a") == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_exists(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_drop(NULL, "a") == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_drop(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_names(NULL, &iterator) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_names(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    // A tree is no store, and a store is not freed as a tree.
    REFUSED(everleaf_tree_open(words, "a", &tree), EVERLEAF_INVALID_ARGUMENT, "give the store");
    REFUSED(everleaf_close(words), EVERLEAF_INVALID_ARGUMENT, "give the store");
    everleaf_tree_free(store);
    CHECK(strstr(everleaf_last_error(), "everleaf_close"));
    CHECK(put(words, "a", "1") == EVERLEAF_OK && put(store, "a", "1") == EVERLEAF_OK);
    everleaf_tree_free(words);
}

static void batches(everleaf_store *store, everleaf_store *other) {
    everleaf_batch *batch;
    everleaf_tree *words = opened(store, "words"), *cities = opened(store, "cities");
    uint64_t ttl_ms;
    CHECK(everleaf_batch_new(words, &batch) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "oak", 3, "in words", 8) == EVERLEAF_OK);
    CHECK(everleaf_batch_on(batch, cities) == EVERLEAF_OK);
    CHECK(everleaf_batch_put_for(batch, "oak", 3, "in cities", 9, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_batch_on(batch, store) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "oak", 3, "in the store", 12) == EVERLEAF_OK);
    CHECK(everleaf_batch_put_for(batch, "elm", 3, "brief", 5, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_batch_touch(batch, "oak", 3, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_batch_persist(batch, "elm", 3) == EVERLEAF_OK);
    CHECK(everleaf_batch_touch(batch, "no tree", 7, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_batch_persist(batch, "no tree", 7) == EVERLEAF_OK);
    CHECK(everleaf_batch_touch(batch, "a", 1, 0) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_touch(NULL, "a", 1, 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_persist(NULL, "a", 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_persist(batch, NULL, 1) == EVERLEAF_INVALID_ARGUMENT);
    REFUSED(everleaf_batch_on(batch, other), EVERLEAF_INVALID_ARGUMENT, "another store");
    CHECK(everleaf_batch_on(batch, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_on(NULL, words) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_put_for(batch, "a", 1, "", 0, 0) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_put_for(NULL, "a", 1, "", 0, 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_new(NULL, &batch) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_batch_commit(batch) == EVERLEAF_OK);
    CHECK(is(words, "oak", "in words") == EVERLEAF_OK);
    CHECK(is(cities, "oak", "in cities") == EVERLEAF_OK);
    CHECK(is(store, "oak", "in the store") == EVERLEAF_OK);
    CHECK(everleaf_ttl(cities, "oak", 3, &ttl_ms) == EVERLEAF_OK && ttl_ms <= 3600000);
    CHECK(everleaf_ttl(store, "oak", 3, &ttl_ms) == EVERLEAF_OK && ttl_ms <= 3600000);
    CHECK(everleaf_ttl(store, "elm", 3, &ttl_ms) == EVERLEAF_OK && ttl_ms == UINT64_MAX);
    CHECK(is(store, "no tree", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_batch_commit(NULL) == EVERLEAF_INVALID_ARGUMENT);
    everleaf_tree_free(words);
    everleaf_tree_free(cities);
}

static everleaf_tree *with(everleaf_tree *tree, everleaf_expiry expiry, uint64_t ms) {
    everleaf_tree *with;
    CHECK(everleaf_tree_with_expiry(tree, expiry, ms, &with) == EVERLEAF_OK);
    return with;
}

// How long the value of the key lives on, in hours, rounded up; -1: for ever.
static int hours(everleaf_tree *tree, const char *key) {
    uint64_t ttl_ms;
    CHECK(everleaf_ttl(tree, key, strlen(key), &ttl_ms) == EVERLEAF_OK);
    return ttl_ms == UINT64_MAX ? -1 : (int)((ttl_ms + 3599999) / 3600000);
}

// Every write, by every kind of expiry.
static void expiries(everleaf_store *store) {
    everleaf_tree *tree = opened(store, "expiries"), *none;
    everleaf_tree *hour = with(tree, EVERLEAF_EXPIRY_AFTER, 3600000);
    everleaf_tree *never = with(hour, EVERLEAF_EXPIRY_NEVER, 0);
    everleaf_tree *kept = with(tree, EVERLEAF_EXPIRY_KEPT, 0);
    everleaf_tree *past = with(tree, EVERLEAF_EXPIRY_AT, 1);
    everleaf_tree *future = with(tree, EVERLEAF_EXPIRY_AT, UINT64_C(253402300799000));
    everleaf_batch *batch;
    everleaf_transaction *tx;
    everleaf_snapshot *snapshot;

    CHECK(everleaf_put_if_absent(hour, "a", 1, "1", 1) == EVERLEAF_OK && hours(tree, "a") == 1);
    CHECK(put(kept, "a", "2") == EVERLEAF_OK && hours(tree, "a") == 1);
    CHECK(put(tree, "a", "3") == EVERLEAF_OK && hours(tree, "a") == -1);
    CHECK(everleaf_compare_and_swap(hour, "a", 1, "3", 1, "4", 1) == EVERLEAF_OK);
    CHECK(hours(tree, "a") == 1);
    CHECK(everleaf_compare_and_swap(never, "a", 1, "4", 1, "5", 1) == EVERLEAF_OK);
    CHECK(hours(tree, "a") == -1);
    CHECK(put(kept, "b", "") == EVERLEAF_OK && hours(tree, "b") == -1);
    CHECK(put(past, "b", "") == EVERLEAF_OK && is(tree, "b", "") == EVERLEAF_NOT_FOUND);
    CHECK(put(future, "b", "") == EVERLEAF_OK && hours(tree, "b") > 24);
    CHECK(everleaf_put_for(never, "b", 1, "", 0, 7200000) == EVERLEAF_OK);
    CHECK(hours(tree, "b") == 2);
    CHECK(everleaf_touch(never, "b", 1, 3600000) == EVERLEAF_OK && hours(tree, "b") == 1);
    CHECK(everleaf_persist(hour, "b", 1) == EVERLEAF_OK && hours(tree, "b") == -1);

    CHECK(everleaf_batch_new(hour, &batch) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "a", 1, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_batch_on(batch, future) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "b", 1, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_batch_commit(batch) == EVERLEAF_OK);
    CHECK(hours(tree, "a") == 1 && hours(tree, "b") > 24);
    CHECK(everleaf_transaction_begin(store, &tx) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put(tx, kept, "a", 1, "6", 1) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put(tx, hour, "b", 1, "6", 1) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put(tx, past, "c", 1, "6", 1) == EVERLEAF_OK);
    CHECK(everleaf_transaction_commit(tx) == EVERLEAF_OK);
    CHECK(is(tree, "a", "6") == EVERLEAF_OK && hours(tree, "a") == 1 && hours(tree, "b") == 1);
    CHECK(is(tree, "c", "") == EVERLEAF_NOT_FOUND);

    // A store is its own tree here, too; it is the store that is to be closed.
    everleaf_tree *own = with(store, EVERLEAF_EXPIRY_AFTER, 3600000);
    CHECK(put(own, "brief", "") == EVERLEAF_OK && hours(store, "brief") == 1);
    REFUSED(everleaf_close(own), EVERLEAF_INVALID_ARGUMENT, "give the store");
    everleaf_tree_free(own);

    REFUSED(everleaf_tree_with_expiry(tree, 4, 0, &none), EVERLEAF_INVALID_ARGUMENT, "one of");
    CHECK(everleaf_tree_with_expiry(tree, EVERLEAF_EXPIRY_AFTER, 0, &none)
          == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_with_expiry(NULL, EVERLEAF_EXPIRY_KEPT, 0, &none)
          == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_tree_with_expiry(tree, EVERLEAF_EXPIRY_KEPT, 0, NULL)
          == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_new(store, &snapshot) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_tree(snapshot, tree, &none) == EVERLEAF_OK);
    CHECK(everleaf_tree_with_expiry(none, EVERLEAF_EXPIRY_KEPT, 0, &own) == EVERLEAF_READ_ONLY);
    everleaf_tree_free(none);
    everleaf_snapshot_free(snapshot);
    everleaf_tree *all[] = {tree, hour, never, kept, past, future};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        everleaf_tree_free(all[i]);
}

static void snapshots(everleaf_store *store, everleaf_store *other) {
    everleaf_snapshot *snapshot;
    everleaf_tree *words = opened(store, "words"), *then, *words_then;
    everleaf_batch *batch;
    everleaf_iterator *iterator;
    uint64_t number;
    CHECK(everleaf_put_for(words, "ash", 3, "1", 1, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_new(store, &snapshot) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_tree(snapshot, store, &then) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_tree(snapshot, words, &words_then) == EVERLEAF_OK);
    CHECK(put(store, "oak", "new") == EVERLEAF_OK && put(words, "elm", "new") == EVERLEAF_OK);
    CHECK(everleaf_remove(words, "oak", 3) == EVERLEAF_OK);
    CHECK(is(then, "oak", "in the store") == EVERLEAF_OK);
    CHECK(is(words_then, "elm", "") == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_contains(words_then, "oak", 3) == EVERLEAF_OK);
    CHECK(everleaf_count(words_then, &number) == EVERLEAF_OK && number == 3);
    CHECK(everleaf_ttl(words_then, "ash", 3, &number) == EVERLEAF_OK && number <= 3600000);
    CHECK(everleaf_range(words_then, NULL, 0, NULL, 0, true, &iterator) == EVERLEAF_OK);
    shows(iterator, "oakasha");
    CHECK(everleaf_prefix(words_then, "as", 2, false, &iterator) == EVERLEAF_OK);
    shows(iterator, "ash");

    REFUSED(put(then, "oak", ""), EVERLEAF_READ_ONLY, "snapshot");
    CHECK(everleaf_put_for(then, "a", 1, "", 0, 1) == EVERLEAF_READ_ONLY);
    CHECK(everleaf_put_if_absent(then, "a", 1, "", 0) == EVERLEAF_READ_ONLY);
    CHECK(everleaf_compare_and_swap(then, "a", 1, "", 0, "", 0) == EVERLEAF_READ_ONLY);
    CHECK(everleaf_touch(then, "a", 1, 1) == EVERLEAF_READ_ONLY);
    CHECK(everleaf_persist(then, "a", 1) == EVERLEAF_READ_ONLY);
    CHECK(everleaf_remove(then, "a", 1) == EVERLEAF_READ_ONLY);
    CHECK(everleaf_batch_new(then, &batch) == EVERLEAF_READ_ONLY);

    everleaf_snapshot *none;
    everleaf_tree *view;
    CHECK(everleaf_snapshot_new(NULL, &none) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_new(words, &none) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_new(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_tree(NULL, store, &view) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_tree(snapshot, NULL, &view) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_tree(snapshot, store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_snapshot_tree(snapshot, other, &view) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(strstr(everleaf_last_error(), "another store"));

    // A view does not keep its snapshot, and is still to be freed.
    everleaf_snapshot_free(snapshot);
    REFUSED(is(then, "oak", ""), EVERLEAF_ERROR, "the snapshot is lost");
    everleaf_tree_free(then);
    everleaf_tree_free(words_then);
    everleaf_tree_free(words);
    everleaf_snapshot_free(NULL);
}

// What is left over when its store is closed fails, and no more.
static void left_over(everleaf_store *store) {
    everleaf_tree *words = opened(store, "words"), *then;
    everleaf_snapshot *snapshot;
    CHECK(everleaf_snapshot_new(store, &snapshot) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_tree(snapshot, store, &then) == EVERLEAF_OK);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    REFUSED(put(words, "a", ""), EVERLEAF_ERROR, "the store is closed");
    REFUSED(is(then, "a", ""), EVERLEAF_ERROR, "the store is closed");
    everleaf_tree_free(then);
    everleaf_snapshot_free(snapshot);
    everleaf_tree_free(words);
}

int main(int argc, char **argv) {
    everleaf_store *store, *other;
    everleaf_tree *tree;
    char path[4096];
    CHECK(argc == 2 && everleaf_create(argv[1], NULL, &store) == EVERLEAF_OK);
    snprintf(path, sizeof path, "%s.other", argv[1]);
    CHECK(everleaf_create(path, NULL, &other) == EVERLEAF_OK);
    by_name(store);
    wrong(store);
    batches(store, other);
    expiries(store);
    snapshots(store, other);
    left_over(store);
    CHECK(everleaf_close(other) == EVERLEAF_OK);
    CHECK(everleaf_open_read_only(argv[1], &store) == EVERLEAF_OK);
    REFUSED(everleaf_tree_open_or_create(store, "new", &tree), EVERLEAF_READ_ONLY, "`new`");
    CHECK(everleaf_tree_drop(store, "words") == EVERLEAF_READ_ONLY);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    puts("all is well");
    return 0;
}
