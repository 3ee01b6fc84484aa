#include "proxy/envoy/values.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/envoy/yaml_writer.h"

namespace sluice::envoy {
namespace {

std::string socket_address_text(const Message& socket) {
  const std::string host = socket.text("address");
  if (const std::string protocol = socket.text("protocol"); !protocol.empty() && protocol != "TCP") {
    socket.refuse("protocol", "only TCP is spoken");
    return "";
  }
  const auto port = socket.number("port_value");
  if (!port || *port > 65535) {
    socket.refuse("port_value", "expected a port from 0 to 65535; named ports are not supported");
    return "";
  }
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", *port) : absl::StrCat(host, ":", *port);
}

uint64_t denominator_of(const Message& percent) {
  const std::string name = percent.text("denominator");
  return name == "TEN_THOUSAND" ? 10000 : name == "MILLION" ? 1000000 : 100;
}

}  // namespace

void put_duration(config::Node& out, std::string_view key, const Message& message, std::string_view field) {
  if (const auto duration = message.duration(field)) put(out, key, duration_text(*duration));
}

void put_timeout(config::Node& out, std::string_view key, const Message& message, std::string_view field) {
  const auto duration = message.duration(field);
  if (duration)
    put(out, key, duration_text(duration->count() == 0 ? std::chrono::milliseconds(convert::kLongestMs) : *duration));
}

void put_number(config::Node& out, std::string_view key, const Message& message, std::string_view field, uint64_t least,
                uint64_t most) {
  const auto number = message.number(field);
  if (!number) return;
  const uint64_t kept = std::clamp(*number, least, most);
  if (kept != *number) message.ignore(field, absl::StrCat("the nearest value that is possible is ", kept));
  put(out, key, absl::StrCat(kept));
}

std::string address_text(const Message& message, std::string_view field) {
  const Message address = message.sub(field);
  if (!address) {
    message.refuse(field, "expected an address");
    return "";
  }
  if (const Message socket = address.sub("socket_address")) return socket_address_text(socket);
  if (const Message pipe = address.sub("pipe")) return absl::StrCat("unix:", pipe.text("path"));
  if (address.node()->items.empty()) address.refuse("", "expected socket_address or pipe");
  return "";
}

std::string file_of(const Message& message, std::string_view field) {
  const Message source = message.sub(field);
  if (!source) return "";
  std::string file = source.text("filename");
  if (file.empty()) source.refuse("", "write it to a file, and name it in filename: the configuration has no contents");
  return file;
}

std::optional<std::string> inline_text_of(const Message& message, std::string_view field) {
  const Message source = message.sub(field);
  if (!source) return std::nullopt;
  if (source.has("inline_string")) return source.text("inline_string");
  source.refuse("", "only inline_string is possible here");
  return std::nullopt;
}

std::string range_text(const Message& range) {
  const std::string address = range.text("address_prefix");
  const auto length = range.number("prefix_len");
  return length ? absl::StrCat(address, "/", *length) : absl::StrCat(address, "/0");
}

std::optional<double> percent_of(const Message& message, std::string_view field) {
  Message percent = message.sub(field);
  if (percent && percent.has("default_value")) percent = percent.sub("default_value");
  if (!percent) return std::nullopt;
  const auto numerator = percent.number("numerator");
  return 100.0 * static_cast<double>(numerator.value_or(0)) / static_cast<double>(denominator_of(percent));
}

}  // namespace sluice::envoy
