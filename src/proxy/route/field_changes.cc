#include "proxy/route/field_changes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

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

void add_variable(const config::TextTemplate::Piece& piece, const HttpFacts& facts, Value& value) {
  std::array<char, ClientIp::kTextBytes> ip;
  switch (piece.variable) {
    case TextVariable::kNone:
      return value.add(piece.text);
    case TextVariable::kClientIp:
      return value.add(facts.client ? facts.client->text(ip) : std::string_view());
    case TextVariable::kHost:
      return value.add(facts.host);
    case TextVariable::kAuthority:
      return value.add(facts.authority);
    case TextVariable::kMethod:
      return value.add(facts.method);
    case TextVariable::kPath:
      return value.add(facts.path);
    case TextVariable::kQuery:
      return value.add(facts.query);
    case TextVariable::kScheme:
      return value.add(facts.scheme);
    case TextVariable::kProtocol:
      return value.add(facts.http2 ? "HTTP/2" : "HTTP/1.1");
    case TextVariable::kListener:
      return value.add(facts.listener);
    case TextVariable::kPeer:
      return value.add(facts.agreed && !facts.agreed->peer_names.empty() ? facts.agreed->peer_names.front()
                                                                         : std::string_view());
    case TextVariable::kTlsVersion:
      return value.add(facts.agreed ? facts.agreed->version : std::string_view());
    case TextVariable::kTlsServerName:
      return value.add(facts.agreed ? facts.agreed->server_name : std::string_view());
    case TextVariable::kHeader:
      return value.add(facts.fields ? facts.fields->value(piece.text) : std::string_view());
  }
}

// Nothing where it is longer than a field can be.
std::optional<std::string_view> value_of(const config::TextTemplate& text, const HttpFacts& facts) {
  static thread_local Value value;
  value.clear();
  for (const config::TextTemplate::Piece& piece : text.pieces()) add_variable(piece, facts, value);
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
