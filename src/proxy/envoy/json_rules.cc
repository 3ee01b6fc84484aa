#include "proxy/envoy/json_rules.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sluice::envoy {
namespace {

// The fields that are annotated as sensitive.
constexpr std::pair<std::string_view, std::string_view> kSecrets[] = {
    {"envoy.extensions.filters.http.basic_auth.v3.BasicAuth", "users"},
    {"envoy.extensions.transport_sockets.tls.v3.GenericSecret", "secret"},
    {"envoy.extensions.transport_sockets.tls.v3.TlsCertificate", "private_key"},
    {"envoy.extensions.transport_sockets.tls.v3.TlsCertificate", "pkcs12"},
    {"envoy.extensions.transport_sockets.tls.v3.TlsCertificate", "password"},
    {"envoy.extensions.transport_sockets.tls.v3.TlsSessionTicketKeys", "keys"},
};

// BoolValue and the like, which are written as the value that they have.
constexpr std::pair<std::string_view, WireKind> kWrappers[] = {
    {"BoolValue", WireKind::kBool},     {"DoubleValue", WireKind::kDouble}, {"FloatValue", WireKind::kFloat},
    {"StringValue", WireKind::kString}, {"BytesValue", WireKind::kBytes},   {"Int32Value", WireKind::kInt},
    {"Int64Value", WireKind::kInt},     {"UInt32Value", WireKind::kUint},   {"UInt64Value", WireKind::kUint},
};

}  // namespace

bool is_secret_field(std::string_view type, std::string_view field) {
  return std::find(std::begin(kSecrets), std::end(kSecrets), std::pair(type, field)) != std::end(kSecrets);
}

std::optional<WireKind> wrapped_kind(std::string_view name) {
  const auto* const found =
      std::find_if(std::begin(kWrappers), std::end(kWrappers), [&](const auto& each) { return each.first == name; });
  return found != std::end(kWrappers) ? std::optional(found->second) : std::nullopt;
}

}  // namespace sluice::envoy
