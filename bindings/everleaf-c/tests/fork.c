// A store that a forked process inherits. The argument is a pool to make.
#define _POSIX_C_SOURCE 200809L
#include <everleaf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(is)                                                                      \
    do {                                                                               \
        if (!(is)) {                                                                   \
            fprintf(stderr, "line %d: %s: %s\n", __LINE__, #is, everleaf_last_error()); \
            _exit(1);                                                                  \
        }                                                                              \
    } while (0)

static void in_the_child(everleaf_store *store) {
    char *value;
    size_t bytes;
    CHECK(everleaf_put(store, "leaf", 4, "of the child", 12) == EVERLEAF_ERROR);
    CHECK(strstr(everleaf_last_error(), "fork"));
    CHECK(everleaf_get(store, "leaf", 4, &value, &bytes) == EVERLEAF_ERROR);
    CHECK(everleaf_close(store) == EVERLEAF_ERROR);
    exit(0);
}

int main(int argc, char **argv) {
    everleaf_store *store;
    CHECK(argc == 2);
    CHECK(everleaf_open_or_create(argv[1], NULL, &store) == EVERLEAF_OK);
    CHECK(everleaf_put(store, "leaf", 4, "of the parent", 13) == EVERLEAF_OK);
    pid_t child = fork();
    if (child == 0)
        in_the_child(store);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(everleaf_put(store, "late", 4, "after the fork", 14) == EVERLEAF_OK);
    _exit(0); // as a crash: nothing is closed
}
