#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice {

/// One reserved range of addresses, handed out in slabs of equal size. Pages cost memory only once touched; a slab
/// given back returns its pages to the system at once but keeps its addresses. Slabs are reused last in, first out. Not
/// thread-safe: each pool owns one.
class Arena {
 public:
  static constexpr size_t kSlabBytes = 256 * 1024;
  static constexpr uint16_t kNoSlab = 0xffff;

  struct Options {
    size_t reserve_bytes;  ///< Upper bound of what can ever be handed out; rounded up to whole slabs, at most 65,534.
    bool huge_pages = false;  ///< MADV_HUGEPAGE. Off: on a cycled 32 MiB arena it cost 20x in p99 (docs/decisions).
  };

  /// Reserves addresses. Where even that fails (a `ulimit -v`, for example) it has no slab; errno says why.
  explicit Arena(Options options);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Index of a slab whose pages are unspecified (fresh or zero), or kNoSlab when the reservation is used up.
  uint16_t take();
  /// Gives a slab's pages back to the system. Precondition: it was taken and nothing refers to it.
  void give_back(uint16_t slab);

  std::byte* slab_data(uint16_t slab) const { return base_ + static_cast<size_t>(slab) * kSlabBytes; }
  /// Whether it has addresses.
  bool reserved() const { return base_ != nullptr; }
  size_t slabs_taken() const { return next_ - free_.size(); }
  size_t slab_limit() const { return limit_; }

  /// Leaves the mapping in place when the arena is destroyed: for the leak path, where somebody still points into it.
  void abandon() { abandoned_ = true; }

  /// Returns the pages of a part of a slab to the system; the addresses stay usable (they read as zero).
  static void discard(std::byte* data, size_t bytes);

 private:
  std::byte* base_ = nullptr;
  size_t limit_ = 0;
  size_t next_ = 0;  // Slabs below it were taken at least once.
  bool abandoned_ = false;
  std::vector<uint16_t> free_;
};

}  // namespace sluice
