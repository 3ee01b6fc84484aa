#include "proxy/http/message/header_option.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "proxy/common/proto_reader.h"
#include "proxy/common/token.h"

namespace sluice {

namespace {

// Longer names are of no use, and would not be found again.
constexpr size_t kMaxNameBytes = 256;

// Those that the proxy writes itself, by the message and the connection that carry the others.
constexpr std::string_view kOfMessage[] = {
    "connection",           "content-length",    "expect", "host",    "keep-alive",        "proxy-connection",
    "sec-websocket-accept", "sec-websocket-key", "te",     "trailer", "transfer-encoding", "upgrade"};

/// A name in lower case; empty if it is none that may be set.
class SettableName {
 public:
  explicit SettableName(std::string_view name) {
    if (name.size() > kMaxNameBytes || !http1::is_token(name)) return;
    std::transform(name.begin(), name.end(), room_.begin(), http1::lowered);
    const std::string_view lower(room_.data(), name.size());
    if (std::find(std::begin(kOfMessage), std::end(kOfMessage), lower) == std::end(kOfMessage)) size_ = name.size();
  }
  std::string_view text() const { return {room_.data(), size_}; }

 private:
  std::array<char, kMaxNameBytes> room_;
  size_t size_ = 0;
};

// BoolValue { value = 1 }
std::optional<bool> read_bool_value(std::string_view message) {
  ProtoReader in(message);
  bool value = false;
  while (in.next()) {
    if (in.is(1, ProtoWire::kVarint)) value = in.number() != 0;
  }
  return in.ok() ? std::optional(value) : std::nullopt;
}

}  // namespace

// HeaderValue { key = 1, value = 2, raw_value = 3 }
std::optional<HeaderOption> read_header_value(std::string_view message) {
  HeaderOption option;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) option.name = in.bytes();
    if (in.is(2, ProtoWire::kBytes) || in.is(3, ProtoWire::kBytes)) option.value = in.bytes();
  }
  if (!in.ok()) return std::nullopt;
  option.value = http1::trimmed(option.value);
  return option;
}

// HeaderValueOption { header = 1, append = 2, append_action = 3 }
std::optional<HeaderOption> read_header_option(std::string_view message) {
  HeaderOption option;
  ProtoReader in(message);
  while (in.next()) {
    if (in.is(1, ProtoWire::kBytes)) {
      const std::optional<HeaderOption> header = read_header_value(in.bytes());
      if (!header) return std::nullopt;
      option.name = header->name;
      option.value = header->value;
    } else if (in.is(2, ProtoWire::kBytes)) {
      option.append = read_bool_value(in.bytes());
      if (!option.append) return std::nullopt;
    } else if (in.is(3, ProtoWire::kVarint)) {
      if (in.number() > static_cast<uint64_t>(HeaderOption::Action::kSetIfPresent)) return std::nullopt;
      option.action = static_cast<HeaderOption::Action>(in.number());
    }
  }
  return in.ok() ? std::optional(option) : std::nullopt;
}

bool is_settable(const HeaderOption& option) {
  return !SettableName(option.name).text().empty() && http1::is_field_text(option.value);
}

bool set_field(ChunkPool& pool, const HeaderOption& option, HeaderOption::Action action, Fields& to) {
  const SettableName name(option.name);
  const bool present = action != HeaderOption::Action::kAppend && to.find(name.text()) != Fields::npos;
  switch (action) {
    case HeaderOption::Action::kAppend:
      break;
    case HeaderOption::Action::kAddIfAbsent:
      if (present) return true;
      break;
    case HeaderOption::Action::kSetIfPresent:
      if (!present) return true;
      [[fallthrough]];
    case HeaderOption::Action::kSet:
      if (present) to.remove(name.text());
      break;
  }
  return to.add(pool, name.text(), option.value);
}

void remove_field(std::string_view name, Fields& from) {
  const SettableName known(name);
  if (!known.text().empty()) from.remove(known.text());
}

}  // namespace sluice
