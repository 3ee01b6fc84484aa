#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sluice {

/// The endpoints that one connection has tried. Beyond 64 endpoints the later ones are not remembered and may be tried
/// twice.
class TriedEndpoints {
 public:
  void add(size_t index) {
    if (index < 64) bits_ |= uint64_t{1} << index;
  }
  void remove(size_t index) {
    if (index < 64) bits_ &= ~(uint64_t{1} << index);
  }
  void add(const TriedEndpoints& others) { bits_ |= others.bits_; }
  bool contains(size_t index) const { return index < 64 && (bits_ >> index & 1); }
  /// That are remembered.
  size_t count() const { return static_cast<size_t>(std::popcount(bits_)); }

 private:
  uint64_t bits_ = 0;
};

}  // namespace sluice
