#include "proxy/tls/server_context.h"

#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "alts_like/tls_handshake.h"
#include "proxy/common/read_file.h"
#include "proxy/tls/certificate_choice.h"
#include "proxy/tls/certificate_files.h"
#include "proxy/tls/context_options.h"
#include "proxy/tls/pem_file.h"
#include "sluice/internal/check.h"

namespace sluice {

namespace {

using config::ClientCertificate;

// The lifetimes of tickets. A TLS 1.2 ticket contains the secret from which its connections' keys are derived, so its
// lifetime is short. A TLS 1.3 ticket does not, and it expires before TicketKeys drops the key that opens it.
constexpr uint32_t kTls12TicketSeconds = 2 * 3600;
constexpr uint32_t kTls13TicketSeconds = 2 * 24 * 3600;

// The data for the callbacks. The SSL_CTX owns it.
class Policy {
 public:
  Policy(const config::ListenerTls& config, std::shared_ptr<TicketKeys> tickets)
      : tickets_(std::move(tickets)), alpn_(on_the_wire(config.alpn)) {}

  absl::Status read_certificates(const std::vector<config::TlsCertificate>& files, KeySigner* signer,
                                 std::vector<FileWarning>& warnings);
  void attach_to(SSL_CTX* context);

  static int choose_certificate(SSL* ssl, void* self);
  static int choose_protocol(SSL* ssl, const uint8_t** out, uint8_t* out_size, const uint8_t* offered, unsigned size,
                             void* self);
  static int ticket_key(SSL* ssl, uint8_t* name, uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac, int seal);

 private:
  // The index of the policy in an SSL_CTX, which deletes it with itself.
  static int place() {
    static const int index = SSL_CTX_get_ex_new_index(
        0, nullptr, nullptr, nullptr,
        [](void*, void* policy, CRYPTO_EX_DATA*, int, long, void*) { delete static_cast<Policy*>(policy); });
    return index;
  }

  std::shared_ptr<TicketKeys> tickets_;
  std::vector<Certificate> certificates_;
  CertificateChoice choice_;
  std::string alpn_;  // In wire format.
};

absl::Status Policy::read_certificates(const std::vector<config::TlsCertificate>& files, KeySigner* signer,
                                       std::vector<FileWarning>& warnings) {
  for (const config::TlsCertificate& one : files) {
    auto certificate = read_certificate(one, signer);
    if (!certificate.ok()) return certificate.status();
    std::move(certificate->warnings.begin(), certificate->warnings.end(), std::back_inserter(warnings));
    certificates_.push_back(*std::move(certificate));
  }
  choice_ = CertificateChoice(certificates_);
  return absl::OkStatus();
}

void Policy::attach_to(SSL_CTX* context) {
  SLUICE_CHECK(SSL_CTX_set_ex_data(context, place(), this) == 1);
  SSL_CTX_set_cert_cb(context, &choose_certificate, this);
  if (!alpn_.empty()) SSL_CTX_set_alpn_select_cb(context, &choose_protocol, this);
  SSL_CTX_set_tlsext_ticket_key_cb(context, &ticket_key);
  TlsHandshake::use_gates(context);
}

// Offers BoringSSL the certificates for the server name. It uses the first one whose key the client supports.
int Policy::choose_certificate(SSL* ssl, void* self) {
  const Policy& policy = *static_cast<const Policy*>(self);
  const char* sent = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  bool added = true;
  policy.choice_.visit(sent ? sent : "", [&](size_t i) {
    added = added && SSL_add1_credential(ssl, policy.certificates_[i].credential.get()) == 1;
  });
  return added ? 1 : 0;
}

int Policy::choose_protocol(SSL*, const uint8_t** out, uint8_t* out_size, const uint8_t* offered, unsigned size,
                            void* self) {
  const std::string& ours = static_cast<const Policy*>(self)->alpn_;
  uint8_t* chosen = nullptr;
  const int result = SSL_select_next_proto(&chosen, out_size, reinterpret_cast<const uint8_t*>(ours.data()),
                                           static_cast<unsigned>(ours.size()), offered, size);
  *out = chosen;
  // Without a common protocol, the alert is no_application_protocol (RFC 7301 section 3.2).
  return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

int Policy::ticket_key(SSL* ssl, uint8_t* name, uint8_t* iv, EVP_CIPHER_CTX* cipher, HMAC_CTX* hmac, int seal) {
  TicketKeys& tickets = *static_cast<Policy*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), place()))->tickets_;
  return seal ? tickets.seal(name, iv, cipher, hmac) : tickets.open(name, iv, cipher, hmac);
}

// A session is resumed only where it could have been created: not at another listener, and not with other rules, depth
// or authorities for client certificates.
void set_session_scope(SSL_CTX* context, std::string_view listener, const config::ListenerTls& tls,
                       std::string_view client_ca) {
  const std::string scope =
      absl::StrCat(listener, "\n", static_cast<int>(tls.client_certificate), "\n", tls.client_depth, "\n", client_ca);
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const uint8_t*>(scope.data()), scope.size(), digest);
  static_assert(sizeof digest <= SSL_MAX_SID_CTX_LENGTH);
  SLUICE_CHECK(SSL_CTX_set_session_id_context(context, digest, sizeof digest) == 1);
}

absl::Status request_client_certificates(SSL_CTX* context, const config::ListenerTls& tls) {
  ERR_clear_error();
  if (!SSL_CTX_load_verify_locations(context, tls.client_ca.c_str(), nullptr)) {
    return bad_file(tls.client_ca, "CA certificates in PEM");
  }
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(tls.client_ca.c_str()));
  SSL_CTX_set_verify_depth(context, static_cast<int>(tls.client_depth));
  SSL_CTX_set_verify(context,
                     tls.client_certificate == ClientCertificate::kRequire
                         ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT
                         : SSL_VERIFY_PEER,
                     nullptr);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bssl::UniquePtr<SSL_CTX>> make_server_context(const std::string& listener,
                                                             const config::ListenerTls& tls, const TlsShared& shared,
                                                             std::vector<FileWarning>& warnings) {
  std::shared_ptr<TicketKeys> ticket_keys = shared.ticket_keys;
  if (!tls.ticket_keys.empty()) {
    auto keys = TicketKeys::read(tls.ticket_keys);
    if (!keys.ok()) return keys.status();
    ticket_keys = *std::move(keys);
  }
  auto policy = std::make_unique<Policy>(tls, std::move(ticket_keys));
  if (absl::Status read = policy->read_certificates(tls.certificates, shared.signer, warnings); !read.ok()) return read;

  bssl::UniquePtr<SSL_CTX> made(SSL_CTX_new(TLS_method()));
  SSL_CTX* const context = made.get();
  SLUICE_CHECK(context);
  policy.release()->attach_to(context);
  set_protocols(context, tls.min_version);
  // Sessions are kept only in tickets, so departed clients occupy no memory.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  if (!tls.tickets) SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_timeout(context, kTls12TicketSeconds);
  SSL_CTX_set_session_psk_dhe_timeout(context, kTls13TicketSeconds);
  std::string client_ca;
  if (tls.client_certificate != ClientCertificate::kOff) {
    auto text = read_file(tls.client_ca);
    if (!text.ok()) return text.status();
    client_ca = *std::move(text);
    if (absl::Status requested = request_client_certificates(context, tls); !requested.ok()) return requested;
  }
  set_session_scope(context, listener, tls, client_ca);
  return made;
}

// Where a session may be resumed, the same certificates are accepted.
std::string client_rules(SSL_CTX* context) {
  const bssl::UniquePtr<SSL> ssl(SSL_new(context));
  SLUICE_CHECK(ssl);
  size_t bytes = 0;
  const uint8_t* const scope = SSL_get0_session_id_context(ssl.get(), &bytes);
  return std::string(reinterpret_cast<const char*>(scope), bytes);
}

}  // namespace sluice
