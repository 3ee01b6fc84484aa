// Which parts of an address range are in memory.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

namespace sluice::test {

inline size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

/// Bytes of the pages of [begin, begin + bytes) that are in memory. Precondition: the range is mapped, and begins with
/// a page.
inline size_t resident_bytes(const void* begin, size_t bytes) {
  std::vector<unsigned char> pages((bytes + page_bytes() - 1) / page_bytes());
  EXPECT_EQ(mincore(const_cast<void*>(begin), bytes, pages.data()), 0);
  size_t resident = 0;
  for (const unsigned char page : pages) resident += page & 1 ? page_bytes() : 0;
  return resident;
}

/// Whether the page of `address` is mapped at all.
inline bool is_mapped(const void* address) {
  const char* page = static_cast<const char*>(address) - reinterpret_cast<uintptr_t>(address) % page_bytes();
  unsigned char state = 0;
  return mincore(const_cast<char*>(page), 1, &state) == 0 || errno != ENOMEM;
}

/// Resident memory of the whole process, counted page by page.
inline size_t process_resident_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    size_t kib = 0;
    if (word == "Rss:" && file >> kib) return kib * 1024;
  }
  ADD_FAILURE() << "no Rss in /proc/self/smaps_rollup";
  return 0;
}

}  // namespace sluice::test
