#include "proxy/xds/stat_names.h"

#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proxy/config/model/address.h"
#include "proxy/envoy/message.h"

namespace sluice::xds {
namespace {

using config::Node;

// Null if it is not there. Names of fields may be in snake_case or lowerCamelCase.
const Node* member_named(const Node* map, std::string_view name) {
  if (map == nullptr) return nullptr;
  for (size_t i = 0; i < map->keys.size(); ++i) {
    if (envoy::snake_case(map->keys[i].text) == name) return &map->items[i];
  }
  return nullptr;
}

std::string_view text_of(const Node* node) { return node != nullptr ? std::string_view(node->text) : ""; }

// As Sluice writes it; empty: it is none.
std::string address_of(const Node& listener) {
  const Node* const address = member_named(&listener, "address");
  std::string text;
  if (const Node* const socket = member_named(address, "socket_address")) {
    const std::string_view host = text_of(member_named(socket, "address"));
    const bool is_ip6 = host.find(':') != std::string_view::npos;
    text = absl::StrCat(is_ip6 ? "[" : "", host, is_ip6 ? "]:" : ":", text_of(member_named(socket, "port_value")));
  } else if (const Node* const pipe = member_named(address, "pipe")) {
    text = absl::StrCat("unix:", text_of(member_named(pipe, "path")));
  }
  const absl::StatusOr<config::Address> parsed = config::Address::parse(text);
  return parsed.ok() ? parsed->text() : std::string();
}

void note_prefix(std::unordered_map<std::string, std::string>& prefixes, const std::string& address,
                 std::string_view prefix) {
  const auto [at, is_new] = prefixes.emplace(address, prefix);
  if (!is_new && at->second != prefix) at->second.clear();
}

}  // namespace

void StatNames::add_listener(const Node& listener) {
  const std::string address = address_of(listener);
  if (address.empty()) return;
  std::vector<const Node*> chains;
  if (const Node* const list = member_named(&listener, "filter_chains")) {
    for (const Node& each : list->items) chains.push_back(&each);
  }
  chains.push_back(member_named(&listener, "default_filter_chain"));
  for (const Node* const chain : chains) {
    const Node* const filters = member_named(chain, "filters");
    if (filters == nullptr) continue;
    for (const Node& filter : filters->items) {
      const Node* const options = member_named(&filter, "typed_config");
      if (options == nullptr) continue;
      const std::string type = envoy::type_of_any(*options);
      const std::string_view prefix = text_of(member_named(options, "stat_prefix"));
      if (type.ends_with(".HttpConnectionManager")) note_prefix(http_prefixes, address, prefix);
      if (type.ends_with(".TcpProxy")) note_prefix(tcp_prefixes, address, prefix);
    }
  }
}

}  // namespace sluice::xds
