#include "proxy/common/name_match.h"

#include <algorithm>
#include <bit>
#include <string>

#include "sluice/internal/check.h"

namespace sluice {
namespace {

// FNV-1a, 32 bits (RFC 9923). Looked-up names come from the network, but the keys that can collide come from the
// configuration, so a client cannot make a lookup slower than the longest probe sequence.
uint32_t hash_of(std::string_view key) {
  uint32_t hash = 0x811c9dc5u;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return hash;
}

// Without its stars.
std::string key_for(std::string_view pattern) {
  while (pattern.starts_with('*')) pattern.remove_prefix(1);
  std::string key(pattern);
  for (char& c : key) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return key;
}

}  // namespace

NameTable::NameTable(std::span<const NamePattern> patterns) {
  if (patterns.empty()) return;
  slots_.resize(std::bit_ceil(2 * patterns.size()), Slot{});
  // The values of one key must be contiguous: count them, assign ranges, then fill the ranges.
  for (const NamePattern& pattern : patterns) {
    SLUICE_CHECK(!pattern.text.empty() && pattern.value != kNone);
    ++slot_for(pattern.text).value_count;
  }
  uint32_t places = 0;
  for (Slot& slot : slots_) {
    slot.first_value = places;
    places += slot.value_count;
    slot.value_count = 0;
  }
  values_.resize(places);
  for (const NamePattern& pattern : patterns) {
    Slot& slot = slot_for(pattern.text);
    values_[slot.first_value + slot.value_count++] = pattern.value;
  }
}

// Returns the slot of a pattern, inserting it if it is new.
NameTable::Slot& NameTable::slot_for(std::string_view pattern) {
  const Kind kind = pattern.starts_with("**") ? Kind::kDeep : Kind::kPlain;
  const std::string key = key_for(pattern);
  const uint32_t hash = hash_of(key);
  for (size_t i = hash;; ++i) {
    Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.key_bytes == 0) {
      slot.hash = hash;
      slot.kind = kind;
      slot.key_offset = static_cast<uint32_t>(keys_.size());
      slot.key_bytes = static_cast<uint32_t>(key.size());
      keys_.insert(keys_.end(), key.begin(), key.end());
      ++size_;
      if (kind == Kind::kDeep) deep_sizes_ |= size_bit(static_cast<size_t>(std::ranges::count(key, '.')));
      return slot;
    }
    if (slot.hash == hash && slot.kind == kind && key_of(slot) == key) return slot;
  }
}

const NameTable::Slot* NameTable::lookup(std::string_view key, Kind kind) const {
  const uint32_t hash = hash_of(key);
  for (size_t i = hash;; ++i) {
    const Slot& slot = slots_[i & (slots_.size() - 1)];
    if (slot.key_bytes == 0) return nullptr;
    if (slot.hash == hash && slot.kind == kind && key_of(slot) == key) return &slot;
  }
}

NameTable::Match NameTable::find(std::string_view name) const {
  Match match;
  if (slots_.empty() || name.empty() || name.front() == '.') return match;
  if (const Slot* const slot = lookup(name, Kind::kPlain)) match.exact = values_of(*slot);
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return match;
  if (const Slot* const slot = lookup(name.substr(dot), Kind::kPlain)) match.wildcard = values_of(*slot);
  return match;
}

}  // namespace sluice
