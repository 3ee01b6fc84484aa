#include "proxy/route/field_changes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "proxy/route/text_variables.h"

namespace sluice {
namespace {

using config::TextVariable;

// A value put together. What a certificate says of its holder may be anything: only what a field may have is taken.
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

// Nothing where it is longer than a field can be.
std::optional<std::string_view> value_of(const config::TextTemplate& text, const HttpFacts& facts) {
  static thread_local Value value;
  value.clear();
  std::array<char, ClientIp::kTextBytes> ip;
  for (const config::TextTemplate::Piece& piece : text.pieces()) value.add(text_of(piece, facts, ip));
  if (value.full()) return std::nullopt;
  return value.text();
}

}  // namespace

bool change_fields(ChunkPool& pool, const std::vector<config::FieldChange>& changes,
                   absl::FunctionRef<HttpFacts()> facts_of, Fields& fields) {
  for (const config::FieldChange& change : changes) {
    const std::string& name = change.name.text();
    const config::TextTemplate& text = change.add.empty() ? change.set : change.add;
    const std::optional<std::string_view> value = value_of(text, text.has_variables() ? facts_of() : HttpFacts());
    if (!value) return false;
    if (change.add.empty()) fields.remove(name);
    if (!value->empty() && !fields.add(pool, name, *value)) return false;
  }
  return true;
}

bool speak_of_tls(const std::vector<config::FieldChange>& changes) {
  const auto speaks = [](const config::TextTemplate::Piece& piece) {
    return piece.variable == TextVariable::kTlsVersion || piece.variable == TextVariable::kTlsServerName;
  };
  const auto change_speaks = [&](const config::FieldChange& change) {
    const std::vector<config::TextTemplate::Piece>&set = change.set.pieces(), &add = change.add.pieces();
    return std::any_of(set.begin(), set.end(), speaks) || std::any_of(add.begin(), add.end(), speaks);
  };
  return std::any_of(changes.begin(), changes.end(), change_speaks);
}

}  // namespace sluice
