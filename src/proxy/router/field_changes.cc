#include "proxy/router/field_changes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "proxy/router/text_variables.h"

namespace sluice {
namespace {

using config::TextVariable;

// Builds a field value. Text from a certificate may contain any bytes: control characters are replaced by '?'.
class Value {
 public:
  void clear() { size_ = 0; }
  void add(std::string_view text) {
    for (const char c : text.substr(0, bytes_.size() - size_)) {
      const auto byte = static_cast<unsigned char>(c);
      bytes_[size_++] = byte < ' ' || byte == 0x7f ? '?' : c;
    }
    full_ = size_ == bytes_.size();
  }
  bool full() const { return full_; }
  std::string_view text() const {
    std::string_view text(bytes_.data(), size_);
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
  }

 private:
  std::array<char, Fields::kMaxBytes> bytes_;
  size_t size_ = 0;
  bool full_ = false;
};

// Returns the value of a template, or nullopt if it is too long for a field. A template without variables is used as it
// is.
std::optional<std::string_view> value_of(const config::TextTemplate& text,
                                         absl::FunctionRef<RequestAttributes()> facts_of) {
  if (text.empty()) return std::string_view();
  if (!text.has_variables()) return text.pieces().front().text;
  static thread_local Value value;
  value.clear();
  const RequestAttributes facts = facts_of();
  std::array<char, ClientIp::kTextBytes> ip;
  for (const config::TextTemplate::Piece& piece : text.pieces()) value.add(text_of(piece, facts, ip));
  if (value.full()) return std::nullopt;
  return value.text();
}

// A filter of field names: has no false negatives, and few false positives. Most changes are for fields that a message
// does not have; the filter avoids a search for those.
class NameFilter {
 public:
  explicit NameFilter(const Fields& fields) {
    for (const Fields::Field field : fields) add(field.name);
  }
  void add(std::string_view name) {
    const size_t bit = bit_of(name);
    words_[bit / 64] |= uint64_t{1} << bit % 64;
  }
  bool may_have(std::string_view name) const {
    const size_t bit = bit_of(name);
    return (words_[bit / 64] >> bit % 64 & 1) != 0;
  }

 private:
  static constexpr size_t kBits = 512;

  // Hashes the length and eight characters where names differ most: the last eight, or the first and the last four.
  static size_t bit_of(std::string_view name) {
    uint64_t some = 0;
    if (name.size() >= 8) {
      std::memcpy(&some, name.data() + name.size() - 8, 8);
    } else if (name.size() >= 4) {
      std::memcpy(&some, name.data(), 4);
      some = some << 32 ^ word_at(name.data() + name.size() - 4);
    } else if (!name.empty()) {
      some = static_cast<uint64_t>(name.front()) << 8 ^ static_cast<uint64_t>(name.back());
    }
    const uint64_t mixed =
        (some ^ name.size()) * 0x9e3779b97f4a7c15;  // Multiplies by the golden ratio: Knuth, volume 3, 6.4
    return mixed >> (64 - std::countr_zero(kBits));
  }
  static uint32_t word_at(const char* at) {
    uint32_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }

  std::array<uint64_t, kBits / 64> words_{};
};

}  // namespace

bool change_fields(ChunkPool& pool, const std::vector<config::FieldChange>& changes,
                   absl::FunctionRef<RequestAttributes()> facts_of, Fields& fields) {
  if (changes.empty()) return true;
  NameFilter names(fields);
  for (const config::FieldChange& change : changes) {
    const std::string& name = change.name.text();
    const std::optional<std::string_view> value = value_of(change.add.empty() ? change.set : change.add, facts_of);
    if (!value) return false;
    if (change.add.empty() && names.may_have(name)) fields.remove(name);
    if (value->empty()) continue;
    if (!fields.add(pool, name, *value)) return false;
    names.add(name);
  }
  return true;
}

bool use_tls_variables(const std::vector<config::FieldChange>& changes) {
  const auto uses_tls = [](const config::TextTemplate::Piece& piece) {
    return piece.variable == TextVariable::kTlsVersion || piece.variable == TextVariable::kTlsServerName;
  };
  const auto change_uses_tls = [&](const config::FieldChange& change) {
    const std::vector<config::TextTemplate::Piece>&set = change.set.pieces(), &add = change.add.pieces();
    return std::any_of(set.begin(), set.end(), uses_tls) || std::any_of(add.begin(), add.end(), uses_tls);
  };
  return std::any_of(changes.begin(), changes.end(), change_uses_tls);
}

}  // namespace sluice
