// The flags that BoringSSL's test runner passes to a shim, as far as this one supports them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace sluice::test {

/// The runner counts this exit code as "not implemented" instead of failed.
constexpr int kNotOffered = 89;

/// A certificate with its key.
struct ShimCredential {
  std::string cert_file, key_file, ocsp_response, signed_cert_timestamps;
  std::vector<uint16_t> signing_prefs;
  bool must_match_issuer = false;
};

/// The flags of one connection, with the runner's names.
struct ShimFlags {
  int port = 0;
  uint64_t shim_id = 0;
  bool ipv6 = false, server = false, async = false;
  int resume_count = 0;

  // Configuration.
  int min_version = 0, max_version = 0, max_cert_list = 0, resumption_delay = 0;
  bool no_tls1 = false, no_tls11 = false, no_tls12 = false, no_tls13 = false;
  bool no_ticket = false, fallback_scsv = false, server_preference = false, enable_grease = false,
       permute_extensions = false, ignore_rsa_key_usage = false, allow_unknown_alpn_protos = false;
  bool enable_ocsp_stapling = false, enable_signed_cert_timestamps = false;
  bool verify_peer = false, verify_fail = false, require_any_client_certificate = false, reverify_on_resume = false,
       fail_cert_callback = false;
  bool decline_alpn = false, reject_alpn = false, select_empty_alpn = false;
  std::string cipher, host_name, advertise_alpn, select_alpn, trust_cert, use_client_ca_list, ticket_key;
  std::vector<uint16_t> curves, verify_prefs;
  /// The first is configured by the flags before any -new-x509-credential.
  std::vector<ShimCredential> credentials{ShimCredential()};

  // Actions.
  bool shim_writes_first = false, shim_shuts_down = false, check_close_notify = false,
       read_with_unfinished_write = false, write_different_record_sizes = false, key_update = false,
       key_update_before_read = false, use_export_context = false, export_traffic_secrets = false, tls_unique = false;
  int repeat_shim_initial_write = 1, export_keying_material = 0;
  std::string shim_initial_write = "hello", export_label, export_context;

  // Expectations after the handshake.
  bool expect_session_miss = false, expect_no_session = false, expect_ticket_renewal = false, expect_session_id = false,
       expect_no_session_id = false, expect_extended_master_secret = false, expect_secure_renegotiation = false,
       expect_no_secure_renegotiation = false, expect_hrr = false, expect_no_hrr = false, expect_no_peer_cert = false,
       expect_verify_result = false, expect_key_usage_invalid = false, expect_no_server_name = false;
  int expect_version = 0, expect_cipher = 0, expect_cipher_aes = 0, expect_cipher_no_aes = 0, expect_curve_id = 0,
      expect_peer_signature_algorithm = 0, expect_ticket_age_skew = 0;
  int expect_selected_credential = -2;  ///< -1 is the one before any -new-x509-credential.
  std::string expect_server_name, expect_alpn, expect_advertised_alpn, expect_peer_cert_file, expect_ocsp_response,
      expect_signed_cert_timestamps;
};

struct ShimCommand {
  bool queries_handshaker = false;  ///< -is-handshaker-supported
  ShimFlags initial, resume;
};

/// Ends the program with kNotOffered if a flag is unknown.
ShimCommand parse_command(int argc, char** argv);

/// Ends the program with kNotOffered.
[[noreturn]] void not_offered(const char* what);

}  // namespace sluice::test
