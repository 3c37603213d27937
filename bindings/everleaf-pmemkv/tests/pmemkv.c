// What a program of pmemkv's does, and what it is to get. Its files are made where it runs.
#include <libpmemkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(is)                                                                    \
    do {                                                                             \
        if (!(is)) {                                                                 \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #is, pmemkv_errormsg()); \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)
#define OK(call) CHECK((call) == PMEMKV_STATUS_OK)

static pmemkv_config *config(const char *path) {
    pmemkv_config *config = pmemkv_config_new();
    OK(pmemkv_config_put_path(config, path));
    OK(pmemkv_config_put_size(config, 16 << 20));
    OK(pmemkv_config_put_create_if_missing(config, true));
    return config;
}

static pmemkv_db *opened(const char *engine, pmemkv_config *config) {
    pmemkv_db *db;
    OK(pmemkv_open(engine, config, &db));
    return db;
}

static int append(const char *k, size_t kb, const char *v, size_t vb, void *keys) {
    (void)v, (void)vb;
    strncat(keys, k, kb);
    return strncmp(k, "stop", kb) == 0;
}

static void measure(const char *v, size_t vb, void *length) {
    CHECK(v);
    *(size_t *)length = vb;
}

static void single_keys(pmemkv_db *db) {
    char buffer[8];
    size_t length = 0;
    OK(pmemkv_put(db, "b", 1, "leaf", 4));
    OK(pmemkv_put(db, "", 0, "", 0));
    OK(pmemkv_exists(db, "", 0));
    OK(pmemkv_remove(db, "", 0));
    CHECK(pmemkv_remove(db, "", 0) == PMEMKV_STATUS_NOT_FOUND);
    CHECK(strcmp(pmemkv_errormsg(), "") == 0);
    OK(pmemkv_get(db, "b", 1, measure, &length));
    CHECK(length == 4);
    OK(pmemkv_get_copy(db, "b", 1, buffer, sizeof buffer, &length));
    CHECK(length == 4 && strcmp(buffer, "leaf") == 0);
    CHECK(pmemkv_get_copy(db, "b", 1, buffer, 3, NULL) == PMEMKV_STATUS_OUT_OF_MEMORY);
    CHECK(pmemkv_put(NULL, "b", 1, "", 0) == PMEMKV_STATUS_INVALID_ARGUMENT);
    OK(pmemkv_defrag(db, 0, 100));
    CHECK(pmemkv_defrag(db, 50, 100) == PMEMKV_STATUS_INVALID_ARGUMENT);
}

static void ranges(pmemkv_db *db) {
    char keys[16] = "";
    size_t entries;
    OK(pmemkv_put(db, "a", 1, "1", 1));
    OK(pmemkv_put(db, "c", 1, "3", 1));
    OK(pmemkv_count_between(db, "a", 1, "c", 1, &entries));
    CHECK(entries == 1);
    OK(pmemkv_get_equal_below(db, "b", 1, append, keys));
    CHECK(strcmp(keys, "ab") == 0);
    OK(pmemkv_put(db, "stop", 4, "", 0));
    OK(pmemkv_put(db, "z", 1, "", 0));
    keys[0] = 0;
    CHECK(pmemkv_get_above(db, "a", 1, append, keys) == PMEMKV_STATUS_STOPPED_BY_CB);
    CHECK(strcmp(keys, "bcstop") == 0);
}

static void iterators(pmemkv_db *db) {
    pmemkv_write_iterator *it;
    const char *value;
    char *part;
    size_t length;
    OK(pmemkv_write_iterator_new(db, &it));
    OK(pmemkv_iterator_seek_higher(it->iter, "a", 1));
    OK(pmemkv_write_iterator_write_range(it, 2, 100, &part, &length));
    CHECK(length == 2);
    memcpy(part, "ns", 2);
    OK(pmemkv_write_iterator_commit(it));
    OK(pmemkv_iterator_read_range(it->iter, 0, 100, &value, &length));
    CHECK(length == 4 && memcmp(value, "lens", 4) == 0);
    OK(pmemkv_iterator_next(it->iter));
    OK(pmemkv_iterator_prev(it->iter));
    OK(pmemkv_iterator_key(it->iter, &value, &length));
    CHECK(length == 1 && value[0] == 'b');
    OK(pmemkv_iterator_seek_to_last(it->iter));
    CHECK(pmemkv_iterator_is_next(it->iter) == PMEMKV_STATUS_NOT_FOUND);
    pmemkv_write_iterator_delete(it);
}

static void transactions(pmemkv_db *db) {
    pmemkv_tx *tx;
    OK(pmemkv_tx_begin(db, &tx));
    OK(pmemkv_tx_put(tx, "d", 1, "4", 1));
    OK(pmemkv_tx_remove(tx, "a", 1));
    CHECK(pmemkv_exists(db, "d", 1) == PMEMKV_STATUS_NOT_FOUND);
    OK(pmemkv_tx_commit(tx));
    OK(pmemkv_tx_remove(tx, "d", 1));
    pmemkv_tx_abort(tx);
    OK(pmemkv_tx_commit(tx));
    pmemkv_tx_end(tx);
    OK(pmemkv_exists(db, "d", 1));
    CHECK(pmemkv_exists(db, "a", 1) == PMEMKV_STATUS_NOT_FOUND);
}

static int compare(const char *a, size_t an, const char *b, size_t bn, void *arg) {
    (void)a, (void)an, (void)b, (void)bn, (void)arg;
    return 0;
}

static void refusals(void) {
    pmemkv_db *db;
    pmemkv_config *ordered = config("b.pool");
    OK(pmemkv_config_put_comparator(ordered, pmemkv_comparator_new(compare, "mine", NULL)));
    CHECK(pmemkv_open("stree", ordered, &db) == PMEMKV_STATUS_NOT_SUPPORTED);
    ordered = config("a.pool");
    OK(pmemkv_config_put_comparator(ordered, pmemkv_comparator_new(compare, "mine", NULL)));
    CHECK(pmemkv_open("stree", ordered, &db) == PMEMKV_STATUS_COMPARATOR_MISMATCH);
    CHECK(pmemkv_open("oak", NULL, &db) == PMEMKV_STATUS_WRONG_ENGINE_NAME);
    CHECK(strstr(pmemkv_errormsg(), "[pmemkv_open] Unknown engine name \"oak\""));
    CHECK(pmemkv_open("cmap", NULL, &db) == PMEMKV_STATUS_INVALID_ARGUMENT);
    CHECK(pmemkv_config_put_path(NULL, "") == PMEMKV_STATUS_INVALID_ARGUMENT);
    pmemkv_tx *tx;
    db = opened("cmap", config("a.pool"));
    CHECK(pmemkv_tx_begin(db, &tx) == PMEMKV_STATUS_NOT_SUPPORTED);
    pmemkv_close(db);
}

int main(void) {
    pmemkv_db *db = opened("radix", config("a.pool"));
    single_keys(db);
    ranges(db);
    iterators(db);
    transactions(db);
    pmemkv_close(db);
    refusals();
    db = opened("vsmap", config("."));
    single_keys(db);
    pmemkv_close(db);
    db = opened("blackhole", NULL);
    OK(pmemkv_put(db, "b", 1, "leaf", 4));
    CHECK(pmemkv_exists(db, "b", 1) == PMEMKV_STATUS_NOT_FOUND);
    pmemkv_close(db);
    puts("all is well");
    return 0;
}
