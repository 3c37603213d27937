// A store as PiBench measures it (github.com/sfu-dis/pibench): a shared library with its tree_api,
// on the C library. An acknowledged change survives what the medium of the pool promises.
//
//   bindings/install.sh PREFIX everleaf-c
//   export PKG_CONFIG_PATH=PREFIX/lib/pkgconfig
//   g++ -std=c++17 -O2 -shared -fPIC -I PIBENCH/include tests/tools/pibench.cpp
//     $(pkg-config --cflags --libs libeverleaf) -o libpibench.so    # all in one line
//   export LD_LIBRARY_PATH=PREFIX/lib
//   PiBench $PWD/libpibench.so --pool_path /dev/shm/a.pool --pcm=false -n 1000000 -p 1000000
//
// The pool is made; --pool_size is its first size, and it grows. EVERLEAF_ENGINE names an engine
// other than the default. PiBench is compiled with or without Intel's PCM.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "everleaf.h"
#include "tree_api.hpp"

namespace {

// Whether it is done; ends the program where neither `done` nor its opposite is an answer.
bool done(everleaf_status status) {
  if (status == EVERLEAF_OK) return true;
  if (status == EVERLEAF_NOT_FOUND || status == EVERLEAF_CONFLICT) return false;
  std::fprintf(stderr, "everleaf: %s\n", everleaf_last_error());
  std::exit(1);
}

class Everleaf : public tree_api {
 public:
  explicit Everleaf(const tree_options_t& options) {
    everleaf_options made = {};
    made.size_bytes = options.pool_size;
    made.engine = std::getenv("EVERLEAF_ENGINE");
    done(everleaf_create(options.pool_path.c_str(), &made, &store_));
  }

  ~Everleaf() override { everleaf_close(store_); }

  bool find(const char* key, size_t bytes, char* value_out) override {
    char* value;
    size_t value_bytes;
    if (!done(everleaf_get(store_, key, bytes, &value, &value_bytes))) return false;
    std::memcpy(value_out, value, value_bytes);
    everleaf_free(value);
    return true;
  }

  bool insert(const char* key, size_t bytes, const char* value, size_t value_bytes) override {
    return done(everleaf_put_if_absent(store_, key, bytes, value, value_bytes));
  }

  // A put inserts as well, so it is looked first.
  bool update(const char* key, size_t bytes, const char* value, size_t value_bytes) override {
    return done(everleaf_contains(store_, key, bytes)) &&
           done(everleaf_put(store_, key, bytes, value, value_bytes));
  }

  bool remove(const char* key, size_t bytes) override {
    return done(everleaf_remove(store_, key, bytes));
  }

  int scan(const char* key, size_t bytes, int records, char*& values_out) override {
    static thread_local std::vector<char> shown;
    shown.clear();
    everleaf_iterator* entries;
    done(everleaf_range(store_, key, bytes, nullptr, 0, false, &entries));
    int scanned = 0;
    for (; scanned < records; ++scanned) {
      const void *found, *value;
      size_t found_bytes, value_bytes;
      if (!done(everleaf_next(entries, &found, &found_bytes, &value, &value_bytes))) break;
      for (auto [part, size] : {std::pair{found, found_bytes}, std::pair{value, value_bytes}}) {
        auto* from = static_cast<const char*>(part);
        shown.insert(shown.end(), from, from + size);
      }
    }
    everleaf_iterator_free(entries);
    values_out = shown.data();
    return scanned;
  }

 private:
  everleaf_store* store_ = nullptr;
};

}  // namespace

extern "C" tree_api* create_tree(const tree_options_t& options) { return new Everleaf(options); }
