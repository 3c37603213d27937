// Copies, dumps, checks, statistics, the control socket. The argument is a pool to make.
#include "check.h"

static char path[6][4096];
static const char *pool, *copy, *dump, *restored, *socket_path, *none;

static bool is_there(const char *file) {
    FILE *opened = fopen(file, "r");
    if (opened)
        fclose(opened);
    return opened;
}

static void copies(everleaf_store *store, everleaf_tree *tree) {
    everleaf_store *second;
    uint64_t entries;
    CHECK(everleaf_copy(store, copy, &entries) == EVERLEAF_OK && entries > 1);
    CHECK(everleaf_copy(store, copy, NULL) == EVERLEAF_EXISTS);
    CHECK(everleaf_open(copy, &second) == EVERLEAF_OK);
    CHECK(is(second, "leaf", "a blade of a plant") == EVERLEAF_OK);
    CHECK(everleaf_tree_exists(second, "words") == EVERLEAF_OK);
    CHECK(everleaf_close(second) == EVERLEAF_OK);
    CHECK(everleaf_copy(NULL, none, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_copy(tree, none, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_copy(store, NULL, NULL) == EVERLEAF_INVALID_ARGUMENT);

    CHECK(everleaf_dump(store, dump, &entries) == EVERLEAF_OK && entries > 1);
    CHECK(everleaf_dump(store, dump, NULL) == EVERLEAF_EXISTS);
    CHECK(everleaf_dump(NULL, none, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_dump(store, NULL, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_restore(restored, dump, NULL) == EVERLEAF_MISSING);
    CHECK(everleaf_create(restored, NULL, &second) == EVERLEAF_OK);
    CHECK(everleaf_restore(restored, dump, NULL) == EVERLEAF_LOCKED);
    CHECK(everleaf_close(second) == EVERLEAF_OK);
    REFUSED(everleaf_restore(restored, none, NULL), EVERLEAF_MISSING, none);
    REFUSED(everleaf_restore(restored, copy, NULL), EVERLEAF_ERROR, "not a valid dump");
    CHECK(everleaf_restore(NULL, dump, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_restore(restored, NULL, NULL) == EVERLEAF_INVALID_ARGUMENT);
    uint64_t were = entries;
    CHECK(everleaf_restore(restored, dump, &entries) == EVERLEAF_OK && entries == were);
    REFUSED(everleaf_restore(restored, dump, NULL), EVERLEAF_ERROR, "not empty");
    CHECK(everleaf_open(restored, &second) == EVERLEAF_OK);
    CHECK(is(second, "leaf", "a blade of a plant") == EVERLEAF_OK);
    CHECK(everleaf_close(second) == EVERLEAF_OK);
}

static void figures(everleaf_store *store, everleaf_tree *tree) {
    everleaf_statistics of;
    uint64_t keys;
    CHECK(everleaf_check(store, &keys) == EVERLEAF_OK && keys == 2);
    CHECK(everleaf_check(store, NULL) == EVERLEAF_OK);
    CHECK(everleaf_check(NULL, &keys) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_get_statistics(store, &of) == EVERLEAF_OK);
    CHECK(strcmp(of.engine, "fptree-c") == 0 && strcmp(of.durability_mode, "process") == 0);
    CHECK(strcmp(of.durability, "process-crash") == 0 && !of.log);
    CHECK(of.entries == 3 && of.height >= 1 && of.leaves >= 1 && of.inner_nodes < 9);
    CHECK(of.fill <= 1 && (of.fill == -1 || of.fill > 0) && of.dram_bytes < of.max_bytes);
    CHECK(of.used_bytes > 0 && of.used_bytes + of.free_bytes <= of.total_bytes);
    CHECK(of.total_bytes == 1 << 20 && of.max_bytes == 8 << 20);
    CHECK(everleaf_get_statistics(store, NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_get_statistics(NULL, &of) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_get_statistics(tree, &of) == EVERLEAF_INVALID_ARGUMENT);
}

// Changes a byte of a text in a file.
static void damage(const char *file, const char *text) {
    static char bytes[8 << 20];
    FILE *opened = fopen(file, "r+");
    CHECK(opened);
    size_t length = fread(bytes, 1, sizeof bytes, opened), at = 0;
    while (at + strlen(text) <= length && memcmp(bytes + at, text, strlen(text)))
        at++;
    CHECK(at + strlen(text) <= length);
    CHECK(fseek(opened, at, SEEK_SET) == 0 && fputc('#', opened) == '#' && fclose(opened) == 0);
}

static void damaged(void) {
    everleaf_store *store;
    damage(pool, "a blade of a plant");
    CHECK(everleaf_open(pool, &store) == EVERLEAF_OK);
    CHECK(is(store, "leaf", "") == EVERLEAF_CORRUPT);
    uint64_t keys = 7;
    CHECK(everleaf_check(store, &keys) == EVERLEAF_CORRUPT && keys == 7);
    CHECK(strlen(everleaf_last_error()) > 0);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
}

// A store has a control socket if it is asked for, be it made or opened.
static void control_socket(void) {
    everleaf_store *store;
    everleaf_options with = {.control_socket = true};
    CHECK(everleaf_open_or_create(pool, NULL, &store) == EVERLEAF_OK);
    CHECK(!is_there(socket_path) && everleaf_control_socket(store) == EVERLEAF_OK);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    FILE *in_the_way = fopen(socket_path, "w");
    CHECK(in_the_way && fclose(in_the_way) == 0);
    CHECK(everleaf_open_or_create(pool, &with, &store) == EVERLEAF_OK);
    REFUSED(everleaf_control_socket(store), EVERLEAF_ERROR, "is no socket");
    CHECK(everleaf_control_socket(NULL) == EVERLEAF_INVALID_ARGUMENT);
    CHECK(everleaf_close(store) == EVERLEAF_OK && remove(socket_path) == 0);
    CHECK(everleaf_open_or_create(pool, &with, &store) == EVERLEAF_OK);
    CHECK(everleaf_control_socket(store) == EVERLEAF_OK);
    CHECK(rename(socket_path, none) == 0 && rename(none, socket_path) == 0);
    CHECK(everleaf_close(store) == EVERLEAF_OK && rename(socket_path, none) != 0);
}

int main(int argc, char **argv) {
    const char *suffix[] = {"", ".copy", ".dump", ".restored", ".sock", ".none"};
    const char **names[] = {&pool, &copy, &dump, &restored, &socket_path, &none};
    everleaf_store *store;
    everleaf_tree *words;
    CHECK(argc == 2);
    for (int i = 0; i < 6; i++) {
        snprintf(path[i], sizeof path[i], "%s%s", argv[1], suffix[i]);
        *names[i] = path[i];
    }
    everleaf_options options = {
        .max_size_bytes = 8 << 20, .durability = "process", .control_socket = true};
    CHECK(everleaf_create(pool, &options, &store) == EVERLEAF_OK);
    CHECK(everleaf_control_socket(store) == EVERLEAF_OK);
    CHECK(rename(socket_path, none) == 0 && rename(none, socket_path) == 0);
    CHECK(everleaf_tree_open_or_create(store, "words", &words) == EVERLEAF_OK);
    CHECK(put(store, "leaf", "a blade of a plant") == EVERLEAF_OK);
    CHECK(put(words, "oak", "Quercus") == EVERLEAF_OK);
    copies(store, words);
    figures(store, words);
    everleaf_tree_free(words);
    CHECK(everleaf_close(store) == EVERLEAF_OK);
    control_socket();
    damaged();
    puts("all is well");
    return 0;
}
