#include "net/buffer_ring.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "sluice/internal/check.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<BufferRing>> BufferRing::open(Ring& ring, ChunkPool& pool, Options options) {
  const uint16_t slots = std::max(options.entries, options.max_entries);
  SLUICE_CHECK(std::has_single_bit(options.entries) && std::has_single_bit(slots) && slots <= 32768);
  std::unique_ptr<BufferRing> group(new BufferRing(ring, pool, options));
  group->shared_bytes_ = slots * sizeof(io_uring_buf);
  void* memory = mmap(nullptr, group->shared_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        "no memory for a provided-buffer ring; raise the memory limit, or lower memory.ring_entries");
  }
  group->shared_ = static_cast<io_uring_buf_ring*>(memory);
  group->slots_.resize(slots);
  group->id_at_.resize(slots);
  group->wanted_ = options.entries;
  if (const int error = group->register_group()) {
    return absl::UnavailableError(absl::StrCat("cannot register a provided-buffer ring (Linux 5.19): ",
                                               std::strerror(error), error == ENOMEM ? "; raise `ulimit -l`" : ""));
  }
  return group;
}

BufferRing::~BufferRing() {
  if (shared_ == nullptr) return;
  if (registered_) unregister_group();
  munmap(shared_, shared_bytes_);
}

// Registers the ring without buffers. Returns 0 or an errno.
int BufferRing::register_group() {
  io_uring_buf_ring_init(shared_);
  tail_ = 0;
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<uintptr_t>(shared_);
  registration.ring_entries = static_cast<uint32_t>(slots_.size());
  registration.bgid = options_.group;
  registration.flags = options_.incremental ? IOU_PBUF_RING_INC : 0;
  registration.min_left = options_.min_left;
  const int result = io_uring_register_buf_ring(ring_.raw(), &registration, 0);
  if (result < 0) return -result;
  registered_ = true;
  empty_.clear();
  for (size_t id = slots_.size(); id-- > 0;) empty_.push_back(static_cast<uint16_t>(id));
  return 0;
}

// Armed receives stay armed: they look for the group when data arrives.
void BufferRing::unregister_group() {
  io_uring_unregister_buf_ring(ring_.raw(), options_.group);
  registered_ = false;
  for (Slot& slot : slots_) {
    if (slot.chunk) chunk_unref(std::exchange(slot.chunk, nullptr));
  }
}

// The kernel's ring has no way back for single buffers, so it is registered again. A completion that waits may refer to
// a posted chunk.
void BufferRing::shrink() {
  wanted_ = options_.entries;
  if (!registered_ || filled_slots() <= wanted_ || ring_.has_completions()) return;
  unregister_group();
  refill();
}

// Takes up to `bytes` from the chunk of buffer `id` and returns the number taken. With `more`, the chunk stays posted.
uint32_t BufferRing::take_from(uint16_t id, uint32_t bytes, bool more, Buffer& to) {
  Slot& slot = slots_[id];
  SLUICE_CHECK(slot.chunk != nullptr);
  const uint32_t taken = std::min(bytes, static_cast<uint32_t>(options_.chunk_bytes) - slot.used);
  const uint32_t offset = slot.used;
  slot.used += taken;
  if (more) {
    if (taken > 0) {
      chunk_ref(slot.chunk);
      to.append(Lease::of_range(slot.chunk, offset, taken));
    }
  } else {
    to.append(Lease::of_range(std::exchange(slot.chunk, nullptr), offset, taken));
    empty_.push_back(id);
  }
  return taken;
}

void BufferRing::take(const Completion& completion, Buffer& to) {
  SLUICE_DCHECK(completion.has_buffer());
  uint32_t left = completion.res > 0 ? static_cast<uint32_t>(completion.res) : 0;
  uint16_t id = completion.buffer_id();
  if (options_.incremental) {
    SLUICE_CHECK(take_from(id, left, completion.buffer_more(), to) == left);
    return;
  }
  // A bundle continues in the order in which the buffers were posted.
  uint16_t position = slots_[id].position;
  left -= take_from(id, left, false, to);
  while (left > 0) {
    position = static_cast<uint16_t>((position + 1) & (slots_.size() - 1));
    left -= take_from(id_at_[position], left, false, to);
  }
}

bool BufferRing::refill() {
  // In need of memory the kernel may have refused to register the ring again.
  if (!registered_ && register_group() != 0) return false;
  size_t missing = empty_slots();
  if (missing == 0) return true;
  const int mask = io_uring_buf_ring_mask(static_cast<uint32_t>(slots_.size()));
  int added = 0;
  for (; missing > 0; --missing) {
    Chunk* chunk = options_.reserved ? pool_.get_reserved(options_.chunk_bytes) : pool_.get(options_.chunk_bytes);
    if (chunk == nullptr) break;
    const uint16_t id = empty_.back();
    empty_.pop_back();
    const auto position = static_cast<uint16_t>(tail_ & mask);
    slots_[id] = {chunk, 0, position};
    id_at_[position] = id;
    io_uring_buf_ring_add(shared_, chunk->data, static_cast<unsigned>(options_.chunk_bytes), id, mask, added);
    ++added;
    ++tail_;
  }
  io_uring_buf_ring_advance(shared_, added);
  return missing == 0;
}

}  // namespace sluice
