// Values that expire, and writes on a condition. The argument is a pool to make.
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <time.h>

static void expiry(everleaf_store *store) {
    uint64_t ttl_ms, removed;
    CHECK(everleaf_put_for(store, "late", 4, "1", 1, 3600000) == EVERLEAF_OK);
    CHECK(everleaf_ttl(store, "late", 4, &ttl_ms) == EVERLEAF_OK);
    CHECK(ttl_ms > 3000000 && ttl_ms <= 3600000);
    CHECK(everleaf_touch(store, "late", 4, 7200000) == EVERLEAF_OK);
    CHECK(everleaf_ttl(store, "late", 4, &ttl_ms) == EVERLEAF_OK && ttl_ms > 3600000);
    CHECK(everleaf_persist(store, "late", 4) == EVERLEAF_OK);
    CHECK(everleaf_ttl(store, "late", 4, &ttl_ms) == EVERLEAF_OK && ttl_ms == UINT64_MAX);
    CHECK(everleaf_touch(store, "none", 4, 1) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_persist(store, "none", 4) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_ttl(store, "none", 4, &ttl_ms) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_ttl(store, "late", 4, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_ttl(NULL, "late", 4, &ttl_ms) == EVERLEAF_INVALID_ARGUMENT);
    REFUSED(everleaf_put_for(store, "a", 1, "", 0, 0), EVERLEAF_INVALID_ARGUMENT, "0 ms");
    REFUSED(everleaf_touch(store, "late", 4, 0), EVERLEAF_INVALID_ARGUMENT, "0 ms");
    CHECK(everleaf_put_for(NULL, "a", 1, "", 0, 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_touch(store, NULL, 1, 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_persist(NULL, "a", 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_put_for(store, "for ever", 8, "", 0, UINT64_MAX) == EVERLEAF_OK);
    CHECK(is(store, "for ever", "") == EVERLEAF_OK);

    CHECK(everleaf_put_for(store, "soon", 4, "1", 1, 1) == EVERLEAF_OK);
    for (int waits = 0; is(store, "soon", "1") == EVERLEAF_OK; waits++) {
        CHECK(waits < 10000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    CHECK(everleaf_remove_expired(store, &removed) == EVERLEAF_OK && removed == 1);
    CHECK(everleaf_remove_expired(store, NULL) == EVERLEAF_OK);
    CHECK(everleaf_remove_expired(NULL, &removed) == EVERLEAF_INVALID_ARGUMENT);
}

static void conditions(everleaf_store *store) {
    CHECK(everleaf_put_if_absent(store, "once", 4, "1", 1) == EVERLEAF_OK);
    REFUSED(everleaf_put_if_absent(store, "once", 4, "2", 1), EVERLEAF_CONFLICT, "expected");
    CHECK(is(store, "once", "1") == EVERLEAF_OK);
    CHECK(everleaf_put_if_absent(NULL, "once", 4, "2", 1) == EVERLEAF_INVALID_ARGUMENT);

    // NULL is no entry, a length of 0 an empty value.
    CHECK(everleaf_compare_and_swap(store, "n", 1, "", 0, "1", 1) == EVERLEAF_CONFLICT);
    CHECK(everleaf_compare_and_swap(store, "n", 1, NULL, 0, "", 0) == EVERLEAF_OK);
    CHECK(everleaf_compare_and_swap(store, "n", 1, NULL, 0, "1", 1) == EVERLEAF_CONFLICT);
    CHECK(is(store, "n", "") == EVERLEAF_OK);
    CHECK(everleaf_compare_and_swap(store, "n", 1, "", 0, "1", 1) == EVERLEAF_OK);
    CHECK(everleaf_compare_and_swap(store, "n", 1, "2", 1, NULL, 0) == EVERLEAF_CONFLICT);
    CHECK(everleaf_compare_and_swap(store, "n", 1, "1", 1, NULL, 0) == EVERLEAF_OK);
    CHECK(everleaf_contains(store, "n", 1) == EVERLEAF_NOT_FOUND);
    CHECK(everleaf_compare_and_swap(store, "n", 1, NULL, 1, "", 0) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_compare_and_swap(store, "n", 1, "", 0, NULL, 1) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_compare_and_swap(NULL, "n", 1, "", 0, "", 0) == EVERLEAF_INVALID_ARGUMENT);
}

int main(int argc, char **argv) {
    everleaf_store *store;
    CHECK(argc == 2 && everleaf_create(argv[1], NULL, &store) == EVERLEAF_OK);
    expiry(store);
    conditions(store);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    puts("all is well");
    return 0;
}
