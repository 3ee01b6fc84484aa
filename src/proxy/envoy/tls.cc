#include "proxy/envoy/tls.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proxy/common/suggestions.h"
#include "proxy/config/model/server_name.h"
#include "proxy/envoy/values.h"

namespace sluice::envoy {
namespace {

using config::Node;

// The secret that an SdsSecretConfig names, as a message of the resource that names it.
Message secret_of(const Message& config, const MappingState& state) {
  const std::string name = config.text("name");
  const Node* const secret = state.find_secret(name);
  if (secret == nullptr) {
    config.refuse("name",
                  absl::StrCat("there is no secret ", config::in_quotes(name), ": give the file that has it, too"));
    return {};
  }
  static const MessageRule* const rule = find_message_rule("envoy.extensions.transport_sockets.tls.v3.Secret");
  return {*secret, *rule, config.subject(), config.path_of("secret")};
}

void add_certificate(const Message& certificate, std::vector<Node>& all) {
  Node out = map_node();
  const std::string chain = file_of(certificate, "certificate_chain"), key = file_of(certificate, "private_key");
  if (chain.empty() || key.empty()) return;
  put(out, "chain", chain);
  put(out, "key", key);
  if (const std::string staple = file_of(certificate, "ocsp_staple"); !staple.empty()) put(out, "ocsp", staple);
  all.push_back(std::move(out));
}

std::vector<Node> certificates_of(const Message& common, const MappingState& state) {
  std::vector<Node> all;
  for (const Message& certificate : common.subs("tls_certificates")) add_certificate(certificate, all);
  for (const Message& config : common.subs("tls_certificate_sds_secret_configs")) {
    const Message secret = secret_of(config, state);
    if (const Message certificate = secret.sub("tls_certificate")) add_certificate(certificate, all);
  }
  return all;
}

// The contexts that say whom to trust: one, or two that are merged.
std::vector<Message> validations_of(const Message& common, const MappingState& state) {
  std::vector<Message> all;
  const auto add_secret = [&](const Message& config) {
    if (!config) return;
    const Message secret = secret_of(config, state);
    if (Message validation = secret.sub("validation_context")) all.push_back(std::move(validation));
  };
  if (Message validation = common.sub("validation_context")) all.push_back(std::move(validation));
  add_secret(common.sub("validation_context_sds_secret_config"));
  if (const Message combined = common.sub("combined_validation_context")) {
    if (Message validation = combined.sub("default_validation_context")) all.push_back(std::move(validation));
    add_secret(combined.sub("validation_context_sds_secret_config"));
  }
  return all;
}

void put_min_version(const Message& common, Node& out) {
  const Message parameters = common.sub("tls_params");
  const std::string version = parameters.text("tls_minimum_protocol_version");
  if (version == "TLSv1_3") put(out, "min_version", "1.3");
  if (version == "TLSv1_0" || version == "TLSv1_1") {
    parameters.ignore("tls_minimum_protocol_version", "the oldest version is TLS 1.2");
  }
}

bool restricts_names(const Message& validation) {
  for (const std::string_view field :
       {"match_typed_subject_alt_names", "match_subject_alt_names", "verify_certificate_spki",
        "verify_certificate_hash", "crl", "custom_validator_config"}) {
    if (validation.has(field)) return true;
  }
  return false;
}

void put_listener_alpn(const Message& common, bool for_http, Node& out) {
  std::vector<std::string> alpn = common.texts("alpn_protocols");
  if (!for_http) {
    if (!alpn.empty()) put(out, "alpn", list_node(alpn));
    return;
  }
  std::vector<std::string> spoken;
  for (const std::string& each : alpn) {
    if (each == "h2" || each == "http/1.1") {
      spoken.push_back(each);
    } else {
      common.ignore("alpn_protocols", absl::StrCat("only h2 and http/1.1 are spoken, not ", config::in_quotes(each)));
    }
  }
  // Without ALPN Envoy finds the version by the first bytes, as Sluice does for a client that offers none.
  const std::vector<std::string> usual{"h2", "http/1.1"};
  if (!spoken.empty() && spoken != usual) put(out, "alpn", list_node(spoken));
}

void put_tickets(const Message& context, Node& out) {
  if (context.flag("disable_stateless_session_resumption")) put(out, "tickets", "false");
  std::vector<std::string> files;
  if (const Message keys = context.sub("session_ticket_keys")) {
    for (const Message& key : keys.subs("keys")) {
      if (std::string file = key.text("filename"); !file.empty()) {
        files.push_back(std::move(file));
      } else {
        key.refuse("", "write it to a file, and name it in filename");
      }
    }
  }
  if (!files.empty()) put(out, "ticket_keys", list_node(files));
}

// The names of which the certificate of an endpoint must have one; none if any will do.
std::vector<std::string> expected_names(const Message& validation) {
  std::vector<std::string> names;
  const auto take = [&](const Message& matcher) {
    if (matcher.has("exact")) return names.push_back(matcher.text("exact"));
    matcher.refuse("", "only exact names are compared");
  };
  for (const Message& each : validation.subs("match_typed_subject_alt_names")) {
    if (const std::string type = each.text("san_type"); type != "DNS" && type != "URI" && type != "IP_ADDRESS") {
      each.refuse("san_type", "only names of the types DNS, URI and IP_ADDRESS are compared");
      continue;
    }
    if (const Message matcher = each.sub("matcher")) take(matcher);
  }
  for (const Message& matcher : validation.subs("match_subject_alt_names")) take(matcher);
  return names;
}

}  // namespace

std::optional<ListenerTls> listener_tls(const Message& context, bool for_http, const MappingState& state) {
  ListenerTls tls;
  const Message common = context.sub("common_tls_context");
  std::vector<Node> certificates = certificates_of(common, state);
  if (certificates.empty()) {
    context.refuse("common_tls_context", "no certificate can be used: the listener is left out");
    return std::nullopt;
  }
  list_at(tls.out, "certificates").items = std::move(certificates);
  put_listener_alpn(common, for_http, tls.out);
  std::string ca;
  for (const Message& validation : validations_of(common, state)) {
    if (std::string file = file_of(validation, "trusted_ca"); !file.empty()) ca = std::move(file);
    if (const auto depth = validation.number("max_verify_depth"))
      put(tls.out, "client_depth", absl::StrCat(std::min<uint64_t>(*depth, 100)));
    if (restricts_names(validation)) {
      validation.refuse("", "all clients with a certificate of the authority would get in: use `match.peer` of routes");
      tls.is_weaker = true;
    }
  }
  const bool require = context.flag("require_client_certificate");
  if (!ca.empty()) {
    put(tls.out, "client_ca", ca);
    put(tls.out, "client_certificate", require ? "require" : "request");
  } else if (require) {
    context.refuse("require_client_certificate", "there is no file with authorities: any client would get in");
    tls.is_weaker = true;
  }
  put_min_version(common, tls.out);
  put_tickets(context, tls.out);
  return tls;
}

std::optional<Node> upstream_tls(const Message& context, const std::string& host_name, const MappingState& state) {
  Node out = map_node();
  const Message common = context.sub("common_tls_context");
  const std::vector<Message> validations = validations_of(common, state);
  std::string ca;
  std::vector<std::string> names;
  bool system = false;
  for (const Message& validation : validations) {
    if (std::string file = file_of(validation, "trusted_ca"); !file.empty()) ca = std::move(file);
    if (std::vector<std::string> expected = expected_names(validation); !expected.empty()) names = std::move(expected);
    system = system || validation.has("system_root_certs");
  }
  const std::string sni = context.text("sni");
  const bool verified = !ca.empty() || system;
  if (!verified) {
    put(out, "verify", "false");
  } else if (names.empty() && !sni.empty()) {
    context.ignore("sni", "the certificate must be for this name, which Envoy does not demand");
  }
  if (!ca.empty()) put(out, "ca", ca);
  // A single name that may be the one that is sent is `server_name`.
  const bool is_server =
      names.empty() || (names.size() == 1 && (sni.empty() ? !config::is_uri(names[0]) : sni == names[0]));
  std::string used = sni;
  if (used.empty() && is_server) used = !names.empty() ? names[0] : verified ? host_name : "";
  if (!used.empty()) put(out, "server_name", used);
  if (verified && !is_server) put(out, "verify_names", list_node(names));
  if (verified && used.empty() && is_server) {
    context.refuse("sni",
                   "name the server that the certificates are for: until then requests for this cluster get 503");
    return std::nullopt;
  }
  const std::vector<Node> certificates = certificates_of(common, state);
  if (!certificates.empty()) put(out, "certificate", certificates.front());
  if (certificates.size() > 1) common.refuse("tls_certificates", "an upstream has one certificate: the first is used");
  std::vector<std::string> alpn = common.texts("alpn_protocols");
  if (!alpn.empty()) put(out, "alpn", list_node(alpn));
  put_min_version(common, out);
  return out;
}

}  // namespace sluice::envoy
