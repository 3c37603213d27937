// A store that a forked process inherits. The argument is a pool to make.
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

// What was made of the store before.
static everleaf_tree *tree;
static everleaf_iterator *iterator;
static everleaf_batch *batch;
static everleaf_transaction *transaction;
static everleaf_snapshot *snapshot;

static void in_the_child(everleaf_store *store) {
    char *value;
    const void *at;
    size_t bytes;
    uint64_t count;
    everleaf_snapshot *another;
    CHECK(everleaf_put(store, "leaf", 4, "of the child", 12) == EVERLEAF_ERROR);
    CHECK(strstr(everleaf_last_error(), "fork"));
    CHECK(everleaf_get(store, "leaf", 4, &value, &bytes) == EVERLEAF_ERROR);
    CHECK(everleaf_count(tree, &count) == EVERLEAF_ERROR);
    CHECK(everleaf_next(iterator, &at, &bytes, &at, &bytes) == EVERLEAF_ERROR);
    CHECK(everleaf_tree_drop(store, "words") == EVERLEAF_ERROR);
    CHECK(everleaf_batch_commit(batch) == EVERLEAF_ERROR);
    CHECK(everleaf_transaction_get(transaction, tree, "b", 1, &value, &bytes) == EVERLEAF_ERROR);
    CHECK(everleaf_transaction_commit(transaction) == EVERLEAF_ERROR);
    CHECK(everleaf_transaction_begin(store, &transaction) == EVERLEAF_ERROR);
    CHECK(everleaf_snapshot_new(store, &another) == EVERLEAF_ERROR);
    CHECK(everleaf_remove_expired(store, NULL) == EVERLEAF_ERROR);
    CHECK(everleaf_check(store, NULL) == EVERLEAF_ERROR);
    CHECK(strstr(everleaf_last_error(), "fork"));
    everleaf_snapshot_free(snapshot);
    everleaf_iterator_free(iterator);
    everleaf_tree_free(tree);
    CHECK(everleaf_close(store) == EVERLEAF_ERROR);
    exit(0);
}

int main(int argc, char **argv) {
    everleaf_store *store;
    CHECK(argc == 2);
    CHECK(everleaf_open_or_create(argv[1], NULL, &store) == EVERLEAF_OK);
    CHECK(everleaf_put(store, "leaf", 4, "of the parent", 13) == EVERLEAF_OK);
    CHECK(everleaf_tree_open_or_create(store, "words", &tree) == EVERLEAF_OK);
    CHECK(everleaf_prefix(tree, NULL, 0, false, &iterator) == EVERLEAF_OK);
    CHECK(everleaf_batch_new(tree, &batch) == EVERLEAF_OK);
    CHECK(everleaf_batch_put(batch, "a", 1, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_transaction_begin(store, &transaction) == EVERLEAF_OK);
    CHECK(everleaf_transaction_put(transaction, tree, "a", 1, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_snapshot_new(store, &snapshot) == EVERLEAF_OK);
    pid_t child = fork();
    if (child == 0)
        in_the_child(store);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    uint64_t count;
    CHECK(everleaf_count(tree, &count) == EVERLEAF_OK && count == 0);
    CHECK(everleaf_put(store, "late", 4, "after the fork", 14) == EVERLEAF_OK);
    _exit(0); // as a crash: nothing is closed
}
