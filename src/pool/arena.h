#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::inline v0_1 {

/// Reserves one range of addresses and hands it out in slabs of equal size. Pages cost memory only once touched. A slab
/// that is given back returns its pages to the system at once but keeps its addresses. Slabs are reused last in, first
/// out. Or hands out memory of somebody else in the same way, whose pages stay as they are. Not thread-safe: each pool
/// owns one arena.
class Arena {
 public:
  static constexpr size_t kSlabBytes = 256 * 1024;
  static constexpr uint16_t kNoSlab = 0xffff;

  struct Options {
    size_t reserve_bytes;  ///< Upper bound on the bytes handed out, rounded up to whole slabs; at most 65,534 slabs.
    size_t least_bytes = SIZE_MAX;  ///< If there are fewer addresses, half of that is tried, and so on, down to this.
    bool huge_pages = false;  ///< MADV_HUGEPAGE. Off: on a cycled 32 MiB arena it cost 20x in p99 (docs/internals).
    /// Memory of the caller, of `reserve_bytes` rounded down to whole slabs, that outlives the arena. Or null.
    std::byte* memory = nullptr;
  };

  /// Reserves addresses. If that fails (for example under `ulimit -v`), the arena has no slabs and errno holds the
  /// reason.
  explicit Arena(Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Returns the index of a slab, or kNoSlab when the reservation is used up. The pages hold unspecified bytes.
  uint16_t take();
  /// Returns a slab's pages to the system, unless they are the caller's: then it returns false. Precondition: the slab
  /// was taken, and nothing refers to it.
  bool give_back(uint16_t slab);

  std::byte* slab_data(uint16_t slab) const { return base_ + static_cast<size_t>(slab) * kSlabBytes; }
  /// Whether the addresses could be reserved.
  bool reserved() const { return base_ != nullptr; }
  size_t slabs_taken() const { return next_ - free_.size(); }
  size_t slab_limit() const { return limit_; }

  /// Keeps the mapping in place when the arena is destroyed, because leaked chunks still point into it.
  void abandon() { abandoned_ = true; }

  /// Returns the pages of part of a slab to the system, and their bytes. The addresses stay usable and read as zero.
  /// Does nothing with the caller's memory, and returns 0.
  size_t discard(std::byte* data, size_t bytes);

 private:
  std::byte* base_ = nullptr;
  size_t limit_ = 0;
  size_t next_ = 0;  // All slabs below it were taken at least once.
  bool abandoned_ = false;
  bool given_ = false;  // The memory is the caller's.
  std::vector<uint16_t> free_;
};

}  // namespace sluice::inline v0_1
