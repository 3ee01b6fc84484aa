#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace sluice {

/// Memory for many objects of one size that come and go, on one thread. It lies in slabs of its own: on the heap they
/// would leave holes between objects that stay longer. Slabs without objects go back to the system, all but the first
/// page of one.
class BlockMemory {
 public:
  /// `block_bytes`: of one object, at most kSlabBytes / 8. The alignment is 16 bytes.
  explicit BlockMemory(size_t block_bytes)
      : block_bytes_((block_bytes + kAlignment - 1) & ~(kAlignment - 1)),
        blocks_(static_cast<uint32_t>((kSlabBytes - kFirstBlock) / block_bytes_)) {}
  /// Objects that still exist keep their slabs.
  ~BlockMemory() {
    for (Slab* slab = first_; slab;) {
      Slab* const next = slab->next;
      if (slab->used == 0) munmap(slab, kSlabBytes);
      slab = next;
    }
  }
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;

  /// The block that was given back last to its slab is reused first.
  void* take() {
    if (!first_) add_slab();
    Slab& slab = *first_;
    if (slab.used++ == 0) --empty_;
    void* block = slab.free;
    if (block) {
      slab.free = *static_cast<void**>(block);
    } else {
      block = reinterpret_cast<std::byte*>(&slab) + kFirstBlock + slab.touched++ * block_bytes_;
    }
    if (slab.used == blocks_) unlink(slab);
    return block;
  }

  void give(void* block) {
    // A slab is aligned to its size.
    Slab& slab = *reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) & ~(kSlabBytes - 1));
    *static_cast<void**>(block) = slab.free;
    slab.free = block;
    if (slab.used == blocks_) link(slab);
    if (--slab.used > 0) return;
    if (++empty_ > 1) return free_slab(&slab);
    // The last one stays for the next objects: a worker with few requests would map a slab for each of them.
    slab.free = nullptr;
    const size_t touched_bytes = kFirstBlock + slab.touched * block_bytes_;
    slab.touched = 0;
    if (touched_bytes > kKeptBytes)
      madvise(reinterpret_cast<std::byte*>(&slab) + kPageBytes, kSlabBytes - kPageBytes, MADV_DONTNEED);
  }

 private:
  static constexpr size_t kSlabBytes = size_t{64} * 1024, kAlignment = 16, kFirstBlock = 48;
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kKeptBytes = 2 * kPageBytes;  // Few objects come and go without a system call.

  // The beginning of a slab.
  struct Slab {
    Slab* next;
    Slab* previous;
    void* free;        // The first of the blocks that were given back.
    uint32_t touched;  // Blocks that were ever taken: the rest is not in memory yet.
    uint32_t used;
  };
  static_assert(sizeof(Slab) <= kFirstBlock);

  // Twice the size has an aligned part.
  void add_slab() {
    constexpr int kProtection = PROT_READ | PROT_WRITE, kFlags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* const mapped = mmap(nullptr, 2 * kSlabBytes, kProtection, kFlags, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    const auto begin = reinterpret_cast<uintptr_t>(mapped);
    const uintptr_t at = (begin + kSlabBytes - 1) & ~(kSlabBytes - 1);
    if (at > begin) munmap(mapped, at - begin);
    munmap(reinterpret_cast<void*>(at + kSlabBytes), begin + kSlabBytes - at);
    link(*new (reinterpret_cast<void*>(at)) Slab{});
    ++empty_;
  }
  void free_slab(Slab* slab) {
    unlink(*slab);
    --empty_;
    munmap(slab, kSlabBytes);
  }
  void link(Slab& slab) {
    slab.previous = nullptr;
    slab.next = first_;
    if (first_) first_->previous = &slab;
    first_ = &slab;
  }
  void unlink(Slab& slab) {
    (slab.previous ? slab.previous->next : first_) = slab.next;
    if (slab.next) slab.next->previous = slab.previous;
  }

  const size_t block_bytes_;
  const uint32_t blocks_;  // In a slab.
  Slab* first_ = nullptr;  // Of those with a free block.
  uint32_t empty_ = 0;     // How many of them have no object.
};

}  // namespace sluice
