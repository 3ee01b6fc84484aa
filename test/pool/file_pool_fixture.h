// A pool of file chunks in a directory for temporary files, and its size according to the file system.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sluice/chunk_pool.h"
#include "sluice/file_pool.h"

namespace sluice::test {

/// A directory on a disk, if this machine has one at the usual place; the tests pass elsewhere as well.
inline std::string file_directory() {
  const char* given = std::getenv("SLUICE_FILE_DIRECTORY");
  return given ? given : "/var/tmp";
}

/// What the file may occupy in addition, less than an extent. The file system adds blocks for its own bookkeeping:
/// ext4, one for each 340 runs of blocks once there are more than four. And writes may have allocated blocks of
/// neighbors.
inline constexpr size_t kBookkeepingBytes = FilePool::kExtentBytes - 1;

/// The file occupies what the pool reports, and little more.
inline void expect_on_disk(const FilePool& files) {
  const size_t reported = files.disk_bytes(), occupied = files.file_system_bytes();
  EXPECT_GE(occupied, reported);
  EXPECT_LE(occupied, reported + kBookkeepingBytes);
}

inline ChunkRef chunk_of(FilePool& files, size_t bytes) {
  FileError error;
  ChunkRef chunk = ChunkRef::take(files.get(bytes, &error));
  EXPECT_TRUE(chunk) << error.message;
  return chunk;
}

/// Whether each byte is `value`.
inline bool is_filled(const ChunkRef& chunk, int value) {
  const std::byte* data = chunk.data();
  return data[0] == static_cast<std::byte>(value) && std::memcmp(data, data + 1, chunk.capacity() - 1) == 0;
}

}  // namespace sluice::test
