// A handshake between two contexts, in memory.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "sluice/internal/check.h"

namespace sluice::test {

/// A TLS client that keeps the sessions it receives.
class SessionClient {
 public:
  explicit SessionClient(uint16_t version) : context_(SSL_CTX_new(TLS_method())) {
    SSL_CTX_set_max_proto_version(context_.get(), version);
    SSL_CTX_set_session_cache_mode(context_.get(), SSL_SESS_CACHE_CLIENT);
    SSL_CTX_set_ex_data(context_.get(), place(), this);
    SSL_CTX_sess_set_new_cb(context_.get(), [](SSL* ssl, SSL_SESSION* session) {
      static_cast<SessionClient*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), place()))->sessions.emplace_back(session);
      return 1;
    });
  }
  SessionClient(const SessionClient&) = delete;
  SessionClient& operator=(const SessionClient&) = delete;

  SSL_CTX* context() { return context_.get(); }

  /// Connects to a server with `server`'s settings. Returns whether `session` was resumed.
  bool connect(SSL_CTX* server, SSL_SESSION* session = nullptr) {
    bssl::UniquePtr<SSL> ours(SSL_new(context_.get())), theirs(SSL_new(server));
    BIO *our_end = nullptr, *their_end = nullptr;
    SLUICE_CHECK(BIO_new_bio_pair(&our_end, 0, &their_end, 0) == 1);
    SSL_set_bio(ours.get(), our_end, our_end);
    SSL_set_bio(theirs.get(), their_end, their_end);
    SSL_set_connect_state(ours.get());
    SSL_set_accept_state(theirs.get());
    if (session) SSL_set_session(ours.get(), session);
    for (int i = 0; i < 10; ++i) {
      SSL_do_handshake(ours.get());
      SSL_do_handshake(theirs.get());
    }
    SLUICE_CHECK(!SSL_in_init(ours.get()) && !SSL_in_init(theirs.get()));
    uint8_t byte = 'x';
    SLUICE_CHECK(SSL_write(theirs.get(), &byte, 1) == 1 && SSL_read(ours.get(), &byte, 1) == 1);  // With its tickets.
    SSL_shutdown(ours.get());
    SSL_shutdown(theirs.get());
    return SSL_session_reused(ours.get());
  }

  std::vector<bssl::UniquePtr<SSL_SESSION>> sessions;

 private:
  static int place() {
    static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
    return index;
  }

  bssl::UniquePtr<SSL_CTX> context_;
};

}  // namespace sluice::test
