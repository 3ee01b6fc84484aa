#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "buffer/buffer.h"
#include "pool/chunk_pool.h"

namespace sluice {

/// Bodies of our own responses, in chunks of one worker's pool: a response refers to them, so that however many wait
/// for clients that read nothing, each body is in memory once. One thread.
class SharedBodies {
 public:
  /// A body that is part of the configuration: the same address, the same text, and as long as this object.
  Buffer of_config(ChunkPool& pool, std::string_view text);
  /// A body that was made for this response. The last few are kept.
  Buffer of_page(ChunkPool& pool, std::string_view text);
  /// From here on nothing is kept: the worker ends.
  void drop();

 private:
  static constexpr size_t kPages = 8;
  static Buffer copy_of(ChunkPool& pool, std::string_view text);

  std::vector<std::pair<std::string_view, Buffer>> config_;
  std::array<Buffer, kPages> pages_;
  size_t next_page_ = 0;
  bool keeps_ = true;
};

}  // namespace sluice
