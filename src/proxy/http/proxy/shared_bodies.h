#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "sluice/buffer.h"
#include "sluice/chunk_pool.h"

namespace sluice {

/// The bodies of our own responses, in chunks of one worker's pool. Responses share them, so that each body is in
/// memory only once, however many responses wait for clients that read nothing. Used by one thread.
class SharedBodies {
 public:
  /// Returns a body that is part of the configuration: the same address always has the same text, and outlives this
  /// object.
  Buffer of_config(ChunkPool& pool, std::string_view text);
  /// Returns a body that was made for one response. The last few are kept.
  Buffer of_page(ChunkPool& pool, std::string_view text);
  /// Frees all bodies and keeps none from now on: the worker ends.
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
