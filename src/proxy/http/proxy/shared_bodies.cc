#include "proxy/http/proxy/shared_bodies.h"

#include <algorithm>
#include <cstring>

namespace sluice {

namespace {

bool equal(const Buffer& bytes, std::string_view text) {
  if (bytes.size() != text.size()) return false;
  for (const std::span<const std::byte> window : bytes.windows()) {
    if (std::memcmp(window.data(), text.data(), window.size()) != 0) return false;
    text.remove_prefix(window.size());
  }
  return true;
}

}  // namespace

// Beyond the budget: our own responses do not wait for memory.
Buffer SharedBodies::copy_of(ChunkPool& pool, std::string_view text) {
  Buffer bytes;
  bytes.append_copy_beyond_budget(pool, text);
  return bytes;
}

Buffer SharedBodies::of_config(ChunkPool& pool, std::string_view text) {
  const auto found = std::find_if(config_.begin(), config_.end(), [&](const auto& each) {
    return each.first.data() == text.data() && each.first.size() == text.size();
  });
  if (found != config_.end()) return found->second.clone();
  if (!keeps_) return copy_of(pool, text);
  return config_.emplace_back(text, copy_of(pool, text)).second.clone();
}

Buffer SharedBodies::of_page(ChunkPool& pool, std::string_view text) {
  for (Buffer& page : pages_) {
    if (equal(page, text)) return page.clone();
  }
  if (!keeps_) return copy_of(pool, text);
  Buffer& page = pages_[next_page_];
  next_page_ = (next_page_ + 1) % kPages;
  page = copy_of(pool, text);
  return page.clone();
}

void SharedBodies::drop() {
  keeps_ = false;
  config_.clear();
  for (Buffer& page : pages_) page.clear();
}

}  // namespace sluice
