// BoringSSL, configured by the runner's flags.
#pragma once

#include <openssl/ssl.h>

#include <map>
#include <string>
#include <vector>

#include "alts_like/tls_handshake.h"
#include "runner/shim_flags.h"

namespace sluice::test {

/// The state that one connection leaves for the next of the same run.
struct ShimMemory {
  std::map<std::string, bssl::UniquePtr<SSL_SESSION>> by_id;  ///< A TLS 1.2 server's sessions.
  bssl::UniquePtr<SSL_SESSION> offered;                       ///< A client's session.
  std::string ticket_keys;
  uint64_t now_s = 1234;
};

class ShimContext {
 public:
  /// Both must outlive it. Ends the program if it cannot be set up.
  ShimContext(const ShimFlags& flags, ShimMemory& memory);
  ~ShimContext();
  ShimContext(const ShimContext&) = delete;
  ShimContext& operator=(const ShimContext&) = delete;

  SSL_CTX* get() { return context_.get(); }
  /// Before the first advance.
  void prepare(SSL* ssl);
  /// Whether the completed handshake is the one that the runner requested; otherwise the differences go to stderr.
  bool as_expected(SSL* ssl, bool is_resume);

 private:
  static void note_credential(const SSL* ssl, int event, int);
  static int new_session(SSL* ssl, SSL_SESSION* session);
  static SSL_SESSION* find_session(SSL* ssl, const uint8_t* id, int size, int* copy);
  static int choose_protocol(SSL* ssl, const uint8_t** out, uint8_t* out_size, const uint8_t* offered, unsigned size,
                             void* self);
  static int verify(X509_STORE_CTX* store, void* self);
  static int check_server_name(SSL* ssl, int* alert, void* self);
  void add_credentials(SSL* ssl);
  void bound_versions(SSL* ssl);

  const ShimFlags& flags_;
  ShimMemory& memory_;
  bssl::UniquePtr<SSL_CTX> context_;
  std::vector<bssl::UniquePtr<SSL_CREDENTIAL>> credentials_;  // As in the flags; null for a missing one.
  const SSL_CREDENTIAL* selected_ = nullptr;
  bool got_session_ = false;  // TLS 1.2: one that can be resumed.
};

}  // namespace sluice::test
