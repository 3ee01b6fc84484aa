#include "proxy/router/request_key.h"

#include <string_view>

#include "proxy/http/message/named_values.h"
#include "proxy/upstream/stable_hash.h"

namespace sluice {

std::string_view find_key(const config::HashKey& key, const RequestAttributes& facts) {
  if (key.path) return facts.path;
  if (!key.query.empty()) return parameter_value(facts.query, key.query);
  if (!key.cookie.empty()) return cookie_value(*facts.fields, key.cookie);
  return key.source ? std::string_view() : facts.fields->value(key.header.text());
}

std::optional<uint64_t> hash_of_client(const ClientIp& client) {
  return client.bytes().empty() ? std::nullopt : std::optional(stable_hash(client.bytes()));
}

std::optional<uint64_t> hash_of_request(const std::optional<config::HashKey>& key, const RequestAttributes& facts) {
  const std::string_view text = key && facts.fields ? find_key(*key, facts) : std::string_view();
  if (!text.empty()) return stable_hash(text);
  return facts.client ? hash_of_client(*facts.client) : std::nullopt;
}

}  // namespace sluice
