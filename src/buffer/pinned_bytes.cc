#include "sluice/pinned_bytes.h"

namespace sluice::inline v0_1 {

void PinnedBytes::add(const Buffer& buffer) {
  block_bytes_ += buffer.windows_.block_bytes();
  for (const Window& window : buffer.windows_) chunks_.add(window);
}

Buffer::Pinned PinnedBytes::total() const { return Buffer::pinned_by(chunks_, block_bytes_); }

}  // namespace sluice::inline v0_1
