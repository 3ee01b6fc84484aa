// Holds many bodies at once and reads them back: the program that memory_limit_test.py runs in a memory cgroup.
//
//   file_backed_hold <MiB in total> <KiB per body> file|memory <directory>
//
// Prints a line of JSON when all bodies are held, when they were read back, and when they were released. Exit code 0
// when each body was read back unchanged, 2 when the directory cannot hold a file or is not on a disk.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/spill.h"

namespace sluice {
namespace {

// The value of /proc/self/status under `name`, in bytes.
size_t status_bytes(const char* name) {
  size_t kib = 0;
  if (FILE* file = std::fopen("/proc/self/status", "r")) {
    const size_t length = std::strlen(name);
    std::array<char, 256> line;
    while (std::fgets(line.data(), line.size(), file)) {
      if (std::strncmp(line.data(), name, length) == 0 && line[length] == ':') {
        kib = std::strtoul(line.data() + length + 1, nullptr, 10);
      }
    }
    std::fclose(file);
  }
  return kib * 1024;
}

// Bytes that no two bodies share (splitmix64).
void fill(std::span<uint64_t> words, uint64_t& seed) {
  for (uint64_t& word : words) {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    word = z ^ (z >> 31);
  }
}

// Depends on each byte and its position. Pieces are multiples of eight bytes.
uint64_t hash_of(std::span<const std::byte> bytes, uint64_t hash) {
  for (; !bytes.empty(); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  return hash;
}

void print_status(const char* phase, const FilePool& files, size_t held) {
  const FilePool::Stats stats = files.stats();
  std::printf(
      "{\"phase\": \"%s\", \"held_bytes\": %zu, \"out_bytes\": %zu, \"disk_bytes\": %zu, \"file_system_bytes\": %zu, "
      "\"rss_anon\": %zu, \"rss_file\": %zu}\n",
      phase, held, stats.out_bytes, files.disk_bytes(), files.file_system_bytes(), status_bytes("RssAnon"),
      status_bytes("RssFile"));
  std::fflush(stdout);
}

int run(size_t total_bytes, size_t body_bytes, bool to_file, const std::string& directory) {
  FilePool files({.directory = directory, .limit_bytes = total_bytes + (size_t{16} << 20)});
  if (!files.ok()) {
    std::fprintf(stderr, "%s\n", files.error().message.c_str());
    return 2;
  }
  if (files.in_memory()) {
    std::fprintf(stderr, "%s is in memory itself\n", directory.c_str());
    return 2;
  }
  ChunkPool pool({.budget_bytes = to_file ? 2 * body_bytes + (size_t{4} << 20) : 2 * total_bytes});
  ChunkPool::Use use(&pool);
  std::vector<Buffer> bodies(total_bytes / body_bytes);
  std::vector<uint64_t> hashes(bodies.size());
  uint64_t seed = 0;
  std::vector<uint64_t> words(1024);
  for (size_t i = 0; i < bodies.size(); ++i) {
    for (size_t done = 0; done < body_bytes; done += words.size() * sizeof(uint64_t)) {
      fill(words, seed);
      hashes[i] = hash_of(std::as_bytes(std::span(words)), hashes[i]);
      if (!bodies[i].append_copy(pool, std::as_bytes(std::span(words)))) {
        std::fprintf(stderr, "the budget for memory is used up at body %zu\n", i);
        return 1;
      }
    }
    FileError error;
    if (to_file && !spill(bodies[i], files, &error)) {
      std::fprintf(stderr, "body %zu: %s\n", i, error.message.c_str());
      return 1;
    }
  }
  print_status("held", files, bodies.size() * body_bytes);
  size_t wrong = 0;
  for (size_t i = 0; i < bodies.size(); ++i) {
    uint64_t hash = 0;
    for (std::span<const std::byte> window : bodies[i].windows()) hash = hash_of(window, hash);
    wrong += hash != hashes[i] || bodies[i].size() != body_bytes;
  }
  print_status("read", files, bodies.size() * body_bytes);
  bodies.clear();
  files.trim();
  print_status("released", files, 0);
  if (wrong > 0) std::fprintf(stderr, "%zu bodies are not as they were\n", wrong);
  return wrong > 0;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s <MiB in all> <KiB per body> file|memory <directory>\n", argv[0]);
    return 2;
  }
  return sluice::run(std::strtoul(argv[1], nullptr, 10) << 20, std::strtoul(argv[2], nullptr, 10) << 10,
                     std::string_view(argv[3]) == "file", argv[4]);
}
