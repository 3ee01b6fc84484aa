#include "runner/shim_context.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/mem.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace sluice::test {

namespace {

// The clock for the age of sessions: resumptions happen days later.
uint64_t clock_s = 0;

const uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }
std::string_view text_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

void must(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "cannot set up: %s\n", what);
  ERR_print_errors_fp(stderr);
  std::exit(1);
}

// The content of a PEM file, unchanged: certificates need not be valid.
std::vector<bssl::UniquePtr<CRYPTO_BUFFER>> certificates_in(const std::string& path) {
  std::vector<bssl::UniquePtr<CRYPTO_BUFFER>> all;
  bssl::UniquePtr<BIO> file(BIO_new_file(path.c_str(), "rb"));
  must(file != nullptr, path.c_str());
  char *name = nullptr, *header = nullptr;
  uint8_t* data = nullptr;
  long size = 0;
  while (PEM_read_bio(file.get(), &name, &header, &data, &size) == 1) {
    all.emplace_back(CRYPTO_BUFFER_new(data, static_cast<size_t>(size), nullptr));
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(data);
  }
  ERR_clear_error();
  return all;
}

bssl::UniquePtr<SSL_CREDENTIAL> load(const ShimCredential& from) {
  if (from.cert_file.empty() && from.key_file.empty()) return nullptr;
  bssl::UniquePtr<SSL_CREDENTIAL> made(SSL_CREDENTIAL_new_x509());
  SSL_CREDENTIAL* const to = made.get();
  if (!from.cert_file.empty()) {
    const auto chain = certificates_in(from.cert_file);
    std::vector<CRYPTO_BUFFER*> pointers;
    pointers.reserve(chain.size());
    for (const auto& certificate : chain) pointers.push_back(certificate.get());
    must(SSL_CREDENTIAL_set1_cert_chain(to, pointers.data(), pointers.size()) == 1, from.cert_file.c_str());
  }
  if (!from.key_file.empty()) {
    bssl::UniquePtr<BIO> file(BIO_new_file(from.key_file.c_str(), "rb"));
    bssl::UniquePtr<EVP_PKEY> key(PEM_read_bio_PrivateKey(file.get(), nullptr, nullptr, nullptr));
    must(key && SSL_CREDENTIAL_set1_private_key(to, key.get()) == 1, from.key_file.c_str());
  }
  const auto buffer = [](const std::string& bytes) {
    return bssl::UniquePtr<CRYPTO_BUFFER>(CRYPTO_BUFFER_new(bytes_of(bytes), bytes.size(), nullptr));
  };
  if (!from.signing_prefs.empty()) {
    must(SSL_CREDENTIAL_set1_signing_algorithm_prefs(to, from.signing_prefs.data(), from.signing_prefs.size()) == 1,
         "signing preferences");
  }
  if (!from.ocsp_response.empty()) {
    must(SSL_CREDENTIAL_set1_ocsp_response(to, buffer(from.ocsp_response).get()) == 1, "the OCSP response");
  }
  if (!from.signed_cert_timestamps.empty()) {
    must(SSL_CREDENTIAL_set1_signed_cert_timestamp_list(to, buffer(from.signed_cert_timestamps).get()) == 1,
         "certificate timestamps");
  }
  SSL_CREDENTIAL_set_must_match_issuer(to, from.must_match_issuer);
  return made;
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

// X.509 names in hex, with commas between them.
bssl::UniquePtr<STACK_OF(X509_NAME)> names_in(std::string_view list) {
  bssl::UniquePtr<STACK_OF(X509_NAME)> names(sk_X509_NAME_new_null());
  while (!list.empty() && list != "<EMPTY>") {
    const std::string der = from_hex(list.substr(0, list.find(',')));
    list.remove_prefix(std::min(list.size(), list.find(',') == list.npos ? list.npos : list.find(',') + 1));
    const uint8_t* at = bytes_of(der);
    X509_NAME* name = d2i_X509_NAME(nullptr, &at, static_cast<long>(der.size()));
    must(name && sk_X509_NAME_push(names.get(), name) > 0, "names of authorities");
  }
  return names;
}

}  // namespace

ShimContext::ShimContext(const ShimFlags& flags, ShimMemory& memory)
    : flags_(flags), memory_(memory), context_(SSL_CTX_new(TLS_method())) {
  SSL_CTX* const context = context_.get();
  clock_s = memory.now_s;
  SSL_CTX_set_current_time_cb(context, [](const SSL*, timeval* now) {
    now->tv_sec = static_cast<time_t>(clock_s);
    now->tv_usec = 1234;
  });
  SSL_CTX_set_app_data(context, this);
  // An external cache, which the next connection's context uses.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_BOTH | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_set_info_callback(context, &ShimContext::note_credential);
  SSL_CTX_sess_set_new_cb(context, &ShimContext::new_session);
  SSL_CTX_sess_set_get_cb(context, &ShimContext::find_session);
  SSL_CTX_set_cert_verify_callback(context, &ShimContext::verify, this);
  SSL_CTX_set_tlsext_servername_callback(context, &ShimContext::check_server_name);
  SSL_CTX_set_tlsext_servername_arg(context, this);
  if (!flags.select_alpn.empty() || flags.decline_alpn || flags.reject_alpn || flags.select_empty_alpn) {
    SSL_CTX_set_alpn_select_cb(context, &ShimContext::choose_protocol, this);
  }
  // The cipher suites of a Tls12RecordLayer.
  must(SSL_CTX_set_strict_cipher_list(context, flags.cipher.empty() ? "AESGCM:CHACHA20" : flags.cipher.c_str()) == 1,
       "ciphers");
  if (!flags.cipher.empty()) SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (flags.server_preference) SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE);
  if (!flags.use_client_ca_list.empty()) {
    SSL_CTX_set_client_CA_list(
        context, flags.use_client_ca_list == "<NULL>" ? nullptr : names_in(flags.use_client_ca_list).release());
  }
  SSL_CTX_set_grease_enabled(context, flags.enable_grease);
  SSL_CTX_set_permute_extensions(context, flags.permute_extensions);
  SSL_CTX_set_reverify_on_resume(context, flags.reverify_on_resume);
  SSL_CTX_set_allow_unknown_alpn_protos(context, flags.allow_unknown_alpn_protos);
  std::string& keys = memory.ticket_keys;
  if (keys.empty()) keys = flags.ticket_key;
  if (keys.empty()) {
    keys.resize(48);
    must(SSL_CTX_get_tlsext_ticket_keys(context, keys.data(), keys.size()) == 1, "ticket keys");
  }
  must(SSL_CTX_set_tlsext_ticket_keys(context, keys.data(), keys.size()) == 1, "ticket keys");
  for (const ShimCredential& credential : flags.credentials) credentials_.push_back(load(credential));
}

ShimContext::~ShimContext() = default;

void ShimContext::prepare(SSL* ssl) {
  add_credentials(ssl);
  bound_versions(ssl);
  if (flags_.fail_cert_callback) SSL_set_cert_cb(ssl, [](SSL*, void*) { return 0; }, nullptr);
  if (flags_.require_any_client_certificate) {
    SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  }
  if (flags_.verify_peer) SSL_set_verify(ssl, SSL_VERIFY_PEER, nullptr);
  if (flags_.fallback_scsv) SSL_set_mode(ssl, SSL_MODE_SEND_FALLBACK_SCSV);
  if (flags_.no_ticket) SSL_set_options(ssl, SSL_OP_NO_TICKET);
  SSL_set_enforce_rsa_key_usage(ssl, !flags_.ignore_rsa_key_usage);
  if (flags_.max_cert_list > 0) SSL_set_max_cert_list(ssl, static_cast<size_t>(flags_.max_cert_list));
  if (flags_.enable_ocsp_stapling) SSL_enable_ocsp_stapling(ssl);
  if (flags_.enable_signed_cert_timestamps) SSL_enable_signed_cert_timestamps(ssl);
  if (!flags_.host_name.empty()) must(SSL_set_tlsext_host_name(ssl, flags_.host_name.c_str()) == 1, "the host's name");
  if (!flags_.advertise_alpn.empty()) {
    must(SSL_set_alpn_protos(ssl, bytes_of(flags_.advertise_alpn), flags_.advertise_alpn.size()) == 0, "ALPN");
  }
  if (!flags_.curves.empty()) {
    must(SSL_set1_group_ids(ssl, flags_.curves.data(), flags_.curves.size()) == 1, "groups");
  }
  if (!flags_.verify_prefs.empty()) {
    must(SSL_set_verify_algorithm_prefs(ssl, flags_.verify_prefs.data(), flags_.verify_prefs.size()) == 1,
         "signatures");
  }
  if (!flags_.server && memory_.offered) must(SSL_set_session(ssl, memory_.offered.get()) == 1, "the session");
}

void ShimContext::add_credentials(SSL* ssl) {
  for (size_t i = 1; i < credentials_.size(); ++i) {
    must(credentials_[i] && SSL_add1_credential(ssl, credentials_[i].get()) == 1, "a credential");
  }
  if (credentials_[0]) must(SSL_add1_credential(ssl, credentials_[0].get()) == 1, "the credential");
}

// Like the proxy: nothing below TLS 1.2.
void ShimContext::bound_versions(SSL* ssl) {
  const int most = flags_.max_version, least = flags_.min_version;
  if ((most != 0 && most < TLS1_2_VERSION) || (flags_.no_tls12 && flags_.no_tls13)) not_offered("TLS 1.0 and 1.1");
  must(SSL_set_min_proto_version(ssl, static_cast<uint16_t>(std::max(least, TLS1_2_VERSION))) == 1, "versions");
  if (most != 0) must(SSL_set_max_proto_version(ssl, static_cast<uint16_t>(most)) == 1, "versions");
  if (flags_.no_tls12) SSL_set_options(ssl, SSL_OP_NO_TLSv1_2);
  if (flags_.no_tls13) SSL_set_options(ssl, SSL_OP_NO_TLSv1_3);
}

// ---- Callbacks of BoringSSL ----

// It is available only until the handshake is done.
void ShimContext::note_credential(const SSL* ssl, int event, int) {
  auto& self = *static_cast<ShimContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  if (event == SSL_CB_HANDSHAKE_DONE) self.selected_ = SSL_get0_selected_credential(ssl);
}

int ShimContext::new_session(SSL* ssl, SSL_SESSION* session) {
  auto& self = *static_cast<ShimContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  self.got_session_ = true;
  if (!self.flags_.server) return 0;
  unsigned size = 0;
  const uint8_t* id = SSL_SESSION_get_id(session, &size);
  self.memory_.by_id[std::string(text_of(id, size))].reset(session);
  return 1;
}

SSL_SESSION* ShimContext::find_session(SSL* ssl, const uint8_t* id, int size, int* copy) {
  const auto& self = *static_cast<ShimContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  *copy = 1;
  const auto found = self.memory_.by_id.find(std::string(text_of(id, static_cast<size_t>(size))));
  return found == self.memory_.by_id.end() ? nullptr : found->second.get();
}

int ShimContext::choose_protocol(SSL*, const uint8_t** out, uint8_t* out_size, const uint8_t* offered, unsigned size,
                                 void* self) {
  const ShimFlags& flags = static_cast<ShimContext*>(self)->flags_;
  if (flags.decline_alpn) return SSL_TLSEXT_ERR_NOACK;
  if (flags.reject_alpn) return SSL_TLSEXT_ERR_ALERT_FATAL;
  if (!flags.expect_advertised_alpn.empty() && flags.expect_advertised_alpn != text_of(offered, size)) {
    std::fprintf(stderr, "other protocols were offered\n");
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *out = bytes_of(flags.select_alpn);
  *out_size = static_cast<uint8_t>(flags.select_alpn.size());
  return SSL_TLSEXT_ERR_OK;
}

// The runner's certificates are valid unless it says otherwise.
int ShimContext::verify(X509_STORE_CTX* store, void* self) {
  if (!static_cast<ShimContext*>(self)->flags_.verify_fail) return 1;
  X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

int ShimContext::check_server_name(SSL* ssl, int*, void* self) {
  const ShimFlags& flags = static_cast<ShimContext*>(self)->flags_;
  const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (!flags.expect_server_name.empty() && flags.expect_server_name != (name ? name : "")) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  return SSL_TLSEXT_ERR_OK;
}

// ---- Results ----

bool ShimContext::as_expected(SSL* ssl, bool is_resume) {
  bool all = true;
  const auto expect = [&all](bool met, const char* what, long long want, long long got) {
    if (!met) std::fprintf(stderr, "%s: want %lld, got %lld\n", what, want, got);
    all = all && met;
  };
  const auto same = [&](const char* what, long long want, long long got) { expect(want == got, what, want, got); };
  const auto same_unless_0 = [&](const char* what, long long want, long long got) {
    expect(want == 0 || want == got, what, want, got);
  };
  const auto same_text = [&all](const char* what, std::string_view want, std::string_view got) {
    if (want != got) std::fprintf(stderr, "%s: another than expected\n", what);
    all = all && want == got;
  };
  const int version = SSL_version(ssl);
  const int cipher = SSL_CIPHER_get_protocol_id(SSL_get_current_cipher(ssl));
  const bool resumed = SSL_session_reused(ssl) == 1;
  same("resumed", is_resume && !flags_.expect_session_miss, resumed);
  same_unless_0("version", flags_.expect_version, version);
  same_unless_0("cipher", flags_.expect_cipher, cipher);
  same_unless_0("cipher", EVP_has_aes_hardware() ? flags_.expect_cipher_aes : flags_.expect_cipher_no_aes, cipher);
  same_unless_0("group", flags_.expect_curve_id, SSL_get_group_id(ssl));
  same_unless_0("signature", flags_.expect_peer_signature_algorithm, SSL_get_peer_signature_algorithm(ssl));
  if (is_resume) same_unless_0("ticket age skew", flags_.expect_ticket_age_skew, SSL_get_ticket_age_skew(ssl));
  same("key usage invalid", flags_.expect_key_usage_invalid, SSL_was_key_usage_invalid(ssl));
  if (flags_.expect_extended_master_secret) same("extended master secret", 1, SSL_get_extms_support(ssl));
  const int secure = SSL_get_secure_renegotiation_support(ssl);
  if (flags_.expect_secure_renegotiation) same("secure renegotiation", 1, secure);
  if (flags_.expect_no_secure_renegotiation) same("secure renegotiation", 0, secure);
  if (flags_.expect_hrr) same("hello retry", 1, SSL_used_hello_retry_request(ssl));
  if (flags_.expect_no_hrr) same("hello retry", 0, SSL_used_hello_retry_request(ssl));
  if (flags_.expect_verify_result) {
    same("verify result", flags_.verify_fail ? X509_V_ERR_APPLICATION_VERIFICATION : X509_V_OK,
         SSL_get_verify_result(ssl));
  }

  const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  if (!flags_.expect_server_name.empty()) same_text("server name", flags_.expect_server_name, name ? name : "");
  if (flags_.expect_no_server_name) same_text("server name", "", name ? name : "");
  const uint8_t* data = nullptr;
  unsigned short_size = 0;
  SSL_get0_alpn_selected(ssl, &data, &short_size);
  same_text("ALPN", flags_.server ? flags_.select_alpn : flags_.expect_alpn, text_of(data, short_size));
  size_t size = 0;
  if (!flags_.expect_ocsp_response.empty()) {
    SSL_get0_ocsp_response(ssl, &data, &size);
    same_text("OCSP response", flags_.expect_ocsp_response, text_of(data, size));
  }
  if (!flags_.expect_signed_cert_timestamps.empty()) {
    SSL_get0_signed_cert_timestamp_list(ssl, &data, &size);
    same_text("certificate timestamps", flags_.expect_signed_cert_timestamps, text_of(data, size));
  }

  const STACK_OF(CRYPTO_BUFFER)* chain = SSL_get0_peer_certificates(ssl);
  const size_t certificates = chain ? sk_CRYPTO_BUFFER_num(chain) : 0;
  if (flags_.expect_no_peer_cert) {
    same("certificates", 0, static_cast<long long>(certificates));
  } else if (!flags_.server || flags_.require_any_client_certificate) {
    expect(certificates > 0, "certificates", 1, 0);
  }
  if (!flags_.expect_peer_cert_file.empty()) {
    const auto expected = certificates_in(flags_.expect_peer_cert_file);
    same("certificates", static_cast<long long>(expected.size()), static_cast<long long>(certificates));
    for (size_t i = 0; all && i < certificates; ++i) {
      const auto bytes = [](const CRYPTO_BUFFER* b) { return text_of(CRYPTO_BUFFER_data(b), CRYPTO_BUFFER_len(b)); };
      same_text("certificate", bytes(expected[i].get()), bytes(sk_CRYPTO_BUFFER_value(chain, i)));
    }
  }
  if (flags_.expect_selected_credential != -2) {
    int index = -1;
    for (size_t i = 1; i < credentials_.size(); ++i) {
      if (selected_ && credentials_[i].get() == selected_) index = static_cast<int>(i) - 1;
    }
    same("credential", flags_.expect_selected_credential, index);
  }

  // TLS 1.3 has its tickets after the handshake.
  if (!flags_.server) {
    const bool expected =
        version < TLS1_3_VERSION && !flags_.expect_no_session && (!resumed || flags_.expect_ticket_renewal);
    same("new session", expected, got_session_);
  }
  if (!is_resume && flags_.expect_session_id) same("session kept", 1, got_session_);
  if (!is_resume && flags_.expect_no_session_id) same("session kept", 0, got_session_);
  return all;
}

}  // namespace sluice::test
