#include "runner/shim_flags.h"

#include <openssl/base64.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string_view>
#include <variant>

namespace sluice::test {

namespace {

using Codes = std::vector<uint16_t>;
struct Base64 {
  std::string ShimFlags::* to;
};
struct CredentialBase64 {
  std::string ShimCredential::* to;
};
using Target = std::variant<bool ShimFlags::*, int ShimFlags::*, uint64_t ShimFlags::*, std::string ShimFlags::*,
                            Codes ShimFlags::*, Base64, bool ShimCredential::*, std::string ShimCredential::*,
                            Codes ShimCredential::*, CredentialBase64>;
using F = ShimFlags;
using C = ShimCredential;

const std::map<std::string_view, Target>& targets() {
  static const std::map<std::string_view, Target> all = {
      {"port", &F::port},
      {"shim-id", &F::shim_id},
      {"ipv6", &F::ipv6},
      {"server", &F::server},
      {"async", &F::async},
      {"resume-count", &F::resume_count},

      {"min-version", &F::min_version},
      {"max-version", &F::max_version},
      {"max-cert-list", &F::max_cert_list},
      {"resumption-delay", &F::resumption_delay},
      {"no-tls1", &F::no_tls1},
      {"no-tls11", &F::no_tls11},
      {"no-tls12", &F::no_tls12},
      {"no-tls13", &F::no_tls13},
      {"no-ticket", &F::no_ticket},
      {"fallback-scsv", &F::fallback_scsv},
      {"server-preference", &F::server_preference},
      {"enable-grease", &F::enable_grease},
      {"permute-extensions", &F::permute_extensions},
      {"ignore-rsa-key-usage", &F::ignore_rsa_key_usage},
      {"allow-unknown-alpn-protos", &F::allow_unknown_alpn_protos},
      {"enable-ocsp-stapling", &F::enable_ocsp_stapling},
      {"enable-signed-cert-timestamps", &F::enable_signed_cert_timestamps},
      {"verify-peer", &F::verify_peer},
      {"verify-fail", &F::verify_fail},
      {"require-any-client-certificate", &F::require_any_client_certificate},
      {"reverify-on-resume", &F::reverify_on_resume},
      {"fail-cert-callback", &F::fail_cert_callback},
      {"decline-alpn", &F::decline_alpn},
      {"reject-alpn", &F::reject_alpn},
      {"select-empty-alpn", &F::select_empty_alpn},
      {"cipher", &F::cipher},
      {"host-name", &F::host_name},
      {"advertise-alpn", &F::advertise_alpn},
      {"select-alpn", &F::select_alpn},
      {"trust-cert", &F::trust_cert},
      {"use-client-ca-list", &F::use_client_ca_list},
      {"ticket-key", Base64{&F::ticket_key}},
      {"curves", &F::curves},
      {"verify-prefs", &F::verify_prefs},
      {"cert-file", &C::cert_file},
      {"key-file", &C::key_file},
      {"ocsp-response", CredentialBase64{&C::ocsp_response}},
      {"signed-cert-timestamps", CredentialBase64{&C::signed_cert_timestamps}},
      {"signing-prefs", &C::signing_prefs},
      {"must-match-issuer", &C::must_match_issuer},

      {"shim-writes-first", &F::shim_writes_first},
      {"shim-shuts-down", &F::shim_shuts_down},
      {"check-close-notify", &F::check_close_notify},
      {"read-with-unfinished-write", &F::read_with_unfinished_write},
      {"write-different-record-sizes", &F::write_different_record_sizes},
      {"key-update", &F::key_update},
      {"key-update-before-read", &F::key_update_before_read},
      {"use-export-context", &F::use_export_context},
      {"export-traffic-secrets", &F::export_traffic_secrets},
      {"tls-unique", &F::tls_unique},
      {"repeat-shim-initial-write", &F::repeat_shim_initial_write},
      {"export-keying-material", &F::export_keying_material},
      {"shim-initial-write", &F::shim_initial_write},
      {"export-label", &F::export_label},
      {"export-context", &F::export_context},

      {"expect-session-miss", &F::expect_session_miss},
      {"expect-no-session", &F::expect_no_session},
      {"expect-ticket-renewal", &F::expect_ticket_renewal},
      {"expect-session-id", &F::expect_session_id},
      {"expect-no-session-id", &F::expect_no_session_id},
      {"expect-extended-master-secret", &F::expect_extended_master_secret},
      {"expect-secure-renegotiation", &F::expect_secure_renegotiation},
      {"expect-no-secure-renegotiation", &F::expect_no_secure_renegotiation},
      {"expect-hrr", &F::expect_hrr},
      {"expect-no-hrr", &F::expect_no_hrr},
      {"expect-no-peer-cert", &F::expect_no_peer_cert},
      {"expect-verify-result", &F::expect_verify_result},
      {"expect-key-usage-invalid", &F::expect_key_usage_invalid},
      {"expect-no-server-name", &F::expect_no_server_name},
      {"expect-version", &F::expect_version},
      {"expect-cipher", &F::expect_cipher},
      {"expect-cipher-aes", &F::expect_cipher_aes},
      {"expect-cipher-no-aes", &F::expect_cipher_no_aes},
      {"expect-curve-id", &F::expect_curve_id},
      {"expect-peer-signature-algorithm", &F::expect_peer_signature_algorithm},
      {"expect-ticket-age-skew", &F::expect_ticket_age_skew},
      {"expect-selected-credential", &F::expect_selected_credential},
      {"expect-server-name", &F::expect_server_name},
      {"expect-alpn", &F::expect_alpn},
      {"expect-advertised-alpn", &F::expect_advertised_alpn},
      {"expect-peer-cert-file", &F::expect_peer_cert_file},
      {"expect-ocsp-response", Base64{&F::expect_ocsp_response}},
      {"expect-signed-cert-timestamps", Base64{&F::expect_signed_cert_timestamps}},
  };
  return all;
}

uint64_t number(const char* text) {
  char* end = nullptr;
  const uint64_t value = std::strtoull(text, &end, 10);
  if (end == text || *end != '\0') not_offered("a number that is none");
  return value;
}

std::string decoded(std::string_view text) {
  std::string bytes(text.size(), '\0');
  size_t size = 0;
  if (!EVP_DecodeBase64(reinterpret_cast<uint8_t*>(bytes.data()), &size, bytes.size(),
                        reinterpret_cast<const uint8_t*>(text.data()), text.size())) {
    not_offered("base64 that is none");
  }
  bytes.resize(size);
  return bytes;
}

bool takes_value(const Target& target) {
  return !std::holds_alternative<bool F::*>(target) && !std::holds_alternative<bool C::*>(target);
}

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

void set(ShimFlags& flags, const Target& target, const char* value) {
  C& credential = flags.credentials.back();
  std::visit(Overloaded{
                 [&](bool F::* to) { flags.*to = true; },
                 [&](int F::* to) { flags.*to = std::atoi(value); },
                 [&](uint64_t F::* to) { flags.*to = number(value); },
                 [&](std::string F::* to) { flags.*to = value; },
                 [&](Codes F::* to) { (flags.*to).push_back(static_cast<uint16_t>(number(value))); },
                 [&](Base64 to) { flags.*to.to = decoded(value); },
                 [&](bool C::* to) { credential.*to = true; },
                 [&](std::string C::* to) { credential.*to = value; },
                 [&](Codes C::* to) { (credential.*to).push_back(static_cast<uint16_t>(number(value))); },
                 [&](CredentialBase64 to) { credential.*to.to = decoded(value); },
             },
             target);
}

bool strip(std::string_view& name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  return true;
}

}  // namespace

void not_offered(const char* what) {
  std::fprintf(stderr, "not offered: %s\n", what);
  std::exit(kNotOffered);
}

ShimCommand parse_command(int argc, char** argv) {
  ShimCommand command;
  for (int i = 1; i < argc; ++i) {
    std::string_view name = argv[i];
    if (!strip(name, "-")) not_offered(argv[i]);
    strip(name, "on-shim-");
    const bool for_handshaker = strip(name, "on-handshaker-");
    // For a retried early-data connection, which does not exist here.
    const bool for_retry = strip(name, "on-retry-");
    const bool for_initial = strip(name, "on-initial-"), for_resume = !for_initial && strip(name, "on-resume-");
    if (name == "is-handshaker-supported") {
      command.queries_handshaker = true;
      continue;
    }
    const bool ignored = for_handshaker || for_retry;
    if (name == "new-x509-credential") {
      if (!for_resume && !ignored) command.initial.credentials.emplace_back();
      if (!for_initial && !ignored) command.resume.credentials.emplace_back();
      continue;
    }
    const auto found = targets().find(name);
    if (found == targets().end()) not_offered(argv[i]);
    const char* value = nullptr;
    if (takes_value(found->second)) {
      if (++i == argc) not_offered("a flag without its value");
      value = argv[i];
    }
    if (!for_resume && !ignored) set(command.initial, found->second, value);
    if (!for_initial && !ignored) set(command.resume, found->second, value);
  }
  return command;
}

}  // namespace sluice::test
