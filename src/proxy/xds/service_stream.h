#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "net/timer_wheel.h"
#include "net/worker.h"
#include "proxy/alts/handshaker_services.h"
#include "proxy/common/random.h"
#include "proxy/config/model/config.h"
#include "proxy/config/model/snapshot.h"
#include "proxy/metrics/xds_counters.h"
#include "proxy/resolve/resolver.h"
#include "proxy/upstream/endpoint.h"
#include "proxy/xds/ads_connection.h"

namespace sluice::xds {

/// Keeps a stream of gRPC to a service of the control plane open: while there is none, it connects to one address after
/// the other, soon at first and then less often.
class ServiceStream final : private AdsConnection::Owner {
 public:
  class User {
   public:
    /// There is a stream: send() may be called.
    virtual void on_open() = 0;
    /// An error ends the stream.
    virtual absl::Status on_message(std::string_view message) = 0;
    /// There is no stream any more, or none could be opened.
    virtual void on_lost() = 0;

   protected:
    ~User() = default;
  };
  struct Options {
    config::Snapshot<config::Config> service;  ///< Its first upstream is the service.
    std::string_view path;                     ///< Of the method.
    std::string_view label;                    ///< What the service is, for the log.
    std::string_view consequence;              ///< Of the loss of a stream, for the log.
  };
  ServiceStream(Worker& worker, HandshakerServices& handshakers, Options options, StreamCounters& counters, User& user);
  /// Precondition: ended(), or the worker has stopped.
  ~ServiceStream();

  void connect();
  void send(std::string_view message);
  /// Bytes that were sent, and that the service has not read yet.
  size_t unsent() const { return connection_ != nullptr ? connection_->unsent() : 0; }
  /// Ends the stream for good. User::on_lost() follows unless it has ended().
  void stop();
  /// Whether it has stopped, and there is no stream any more.
  bool ended() const { return stopping_ && connection_ == nullptr; }

 private:
  // AdsConnection::Owner
  void on_open(AdsConnection& connection) override;
  absl::Status on_message(std::string_view message) override;
  void on_lost(AdsConnection& connection, std::string_view why) override;
  void fail(std::string_view why, std::string_view consequence);
  void connect_later();
  std::string describe() const;

  Worker& worker_;
  const Options options_;
  StreamCounters& counters_;
  User& user_;
  const std::shared_ptr<UpstreamState> service_;
  std::unique_ptr<Resolver> resolver_;
  AdsServices services_;
  EndpointView view_;
  Timer retry_;
  AdsConnection* connection_ = nullptr;
  uint32_t endpoint_ = 0;  // Of the connection; held in view_.
  size_t attempts_ = 0;    // Since the last message.
  Random random_;
  bool stopping_ = false;
  std::string last_failure_;  // Logged once.
};

}  // namespace sluice::xds
