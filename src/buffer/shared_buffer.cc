#include "sluice/shared_buffer.h"

#include "sluice/internal/check.h"

namespace sluice::inline v0_1 {

// Cloning a buffer on several threads at once is a race for two reasons: it makes the windows read-only, and a sole
// holder counts without a read-modify-write (chunk_ref). Here neither happens. `second` made the windows read-only, and
// is another reference to each chunk, so that no chunk ever looks like one with a sole holder.
struct SharedBuffer::State {
  explicit State(Buffer&& from) : bytes(std::move(from)), second(bytes.clone()) {}

  Buffer bytes;
  const Buffer second;
};

SharedBuffer SharedBuffer::from(Buffer&& bytes) noexcept {
  return bytes.empty() ? SharedBuffer() : SharedBuffer(std::make_shared<State>(std::move(bytes)));
}

std::optional<SharedBuffer> SharedBuffer::copy_of(const Buffer& bytes) {
  if (bytes.empty()) return SharedBuffer();
  Chunk* const chunk = try_heap_chunk(bytes.size());
  if (!chunk) return std::nullopt;
  Lease copy(ChunkRef::take(chunk), 0, bytes.size());
  bytes.copy_out(0, copy.bytes());
  Buffer buffer;
  buffer.append(std::move(copy));
  return from(std::move(buffer));
}

Buffer SharedBuffer::to_buffer() const { return state_ ? state_->bytes.clone() : Buffer(); }

Buffer SharedBuffer::to_buffer(size_t offset, size_t count) const {
  SLUICE_CHECK(offset <= size() && count <= size() - offset);
  return state_ ? state_->bytes.clone(offset, count) : Buffer();
}

const Buffer& SharedBuffer::buffer() const {
  static const Buffer empty{};
  return state_ ? state_->bytes : empty;
}

}  // namespace sluice::inline v0_1
