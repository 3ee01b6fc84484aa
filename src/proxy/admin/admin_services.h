#pragma once

#include <openssl/ssl.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "net/worker.h"
#include "proxy/admin/admin_pages.h"
#include "proxy/admin/admin_token.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/config/model/admin.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/proxy/http_connection.h"
#include "proxy/http/proxy/http_services.h"

namespace sluice {

class AdminConnection;

/// What a configuration determines of the admin listener.
struct AdminSettings {
  config::Admin config;
  std::optional<AdminToken> token;
  bssl::UniquePtr<SSL_CTX> tls = {};  ///< For connections by TCP; null without TLS.
  std::string tls_rules = {};         ///< client_rules() of `tls`; empty without TLS.
};

/// What the connections of the admin listener share. On its thread only.
class AdminServices final : public HttpServices {
 public:
  /// Who has the connections.
  class Owner {
   public:
    /// Must call `connection.respond()` as soon as there are figures.
    virtual void await_figures(AdminConnection& connection) = 0;
    /// The connection awaits figures no longer.
    virtual void forget(AdminConnection& connection) = 0;
    /// The connection is about to be destroyed.
    virtual void remove(AdminConnection& connection) = 0;

   protected:
    ~Owner() = default;
  };
  /// All responses that wait for slow clients together; a request beyond it gets a 503, unless it is the only one.
  static constexpr size_t kMaxResponseBytes = size_t{64} << 20;

  AdminServices(Worker& loop, HandshakerServices& alts, Owner& its_owner, AdminPages& its_pages,
                AdminCounters& its_counters, const Http1Options& options)
      : HttpServices(loop, alts, HttpConnection::pump),
        owner(its_owner),
        pages(its_pages),
        counters(its_counters),
        http1(options) {}

  /// Takes a place for a response of this size. False if too much waits already.
  bool take_response_bytes(size_t bytes) {
    if (response_bytes_ > 0 && response_bytes_ + bytes > kMaxResponseBytes) return false;
    response_bytes_ += bytes;
    return true;
  }
  void return_response_bytes(size_t bytes) { response_bytes_ -= bytes; }

  Owner& owner;
  AdminPages& pages;
  AdminCounters& counters;
  const Http1Options http1;
  Http1Counters http1_counters;
  AdminSettings settings;

 private:
  size_t response_bytes_ = 0;
};

}  // namespace sluice
