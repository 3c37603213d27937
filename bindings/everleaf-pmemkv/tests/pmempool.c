// Stands in for `pmempool create -l LAYOUT -s SIZE obj POOL` in pmemkv's tests: makes a pool of ours
// that grows up to the size.
#include <everleaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t bytes(const char *size) {
    char *unit;
    uint64_t number = strtoull(size, &unit, 10);
    switch (*unit) {
    case 'G': number <<= 10; // fall through
    case 'M': number <<= 10; // fall through
    case 'K': number <<= 10;
    }
    return number;
}

int main(int argc, char **argv) {
    everleaf_options options = {.size_bytes = 16 << 20};
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "-s") == 0)
            options.max_size_bytes = bytes(argv[i + 1]);
    if (options.max_size_bytes < options.size_bytes)
        options.size_bytes = options.max_size_bytes;
    everleaf_store *store;
    if (everleaf_create(argv[argc - 1], &options, &store) != EVERLEAF_OK ||
        everleaf_close(store) != EVERLEAF_OK) {
        fprintf(stderr, "%s\n", everleaf_last_error());
        return 1;
    }
    return 0;
}
