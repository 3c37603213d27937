// What the test programs share.
#include <everleaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(is)                                                                      \
    do {                                                                               \
        if (!(is)) {                                                                   \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #is, everleaf_last_error()); \
            _Exit(1);                                                                  \
        }                                                                              \
    } while (0)

// That a call is refused, with these words.
#define REFUSED(call, status, words) \
    CHECK((call) == (status) && strstr(everleaf_last_error(), words))

static inline everleaf_status put(everleaf_tree *tree, const char *key, const char *value) {
    return everleaf_put(tree, key, strlen(key), value, strlen(value));
}

static inline everleaf_status is(everleaf_tree *tree, const char *key, const char *expected) {
    char *value;
    size_t bytes;
    everleaf_status status = everleaf_get(tree, key, strlen(key), &value, &bytes);
    if (status == EVERLEAF_OK) {
        CHECK(bytes == strlen(expected) && strcmp(value, expected) == 0);
        everleaf_free(value);
    }
    return status;
}

// The keys that an iterator shows, one behind the other.
static inline void shows(everleaf_iterator *iterator, const char *expected) {
    char keys[64] = "";
    const void *key, *value;
    size_t key_bytes, value_bytes;
    everleaf_status status;
    while (!(status = everleaf_next(iterator, &key, &key_bytes, &value, &value_bytes)))
        strncat(keys, key, key_bytes);
    CHECK(status == EVERLEAF_NOT_FOUND);
    CHECK(strcmp(keys, expected) == 0);
    everleaf_iterator_free(iterator);
}
