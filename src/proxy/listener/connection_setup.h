#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "alts_like/handshake.h"
#include "net/timer_wheel.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/peer_address.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/transport/proxy_protocol.h"
#include "proxy/transport/transport.h"
#include "sluice/buffer.h"
#include "sluice/chunk_pointer.h"

namespace sluice {

class ClientAcceptor;
namespace config {
struct ProxyProtocol;
}

/// Whether an accepted connection begins with a PROXY header.
enum class HeaderRule : uint8_t {
  kNone,
  kExpected,
  kUntrusted,  ///< It must, and its address is not trusted with that.
};
/// May be a system call.
HeaderRule header_rule(const config::ProxyProtocol& config, int fd);

/// The setup of an accepted connection, before any of its bytes reach the session: the PROXY header, the limit per
/// source (which applies to the address that the header names), and the handshake. It is the transport's owner during
/// setup.
///
/// It makes exactly one call to its own owner, possibly from within begin(). The owner may destroy it in that call.
class ConnectionSetup final : private Transport::Owner {
 public:
  class Owner {
   public:
    /// `first`: bytes that have arrived and are not encrypted. After a handshake there may be more: see
    /// Transport::release_arrived().
    virtual void on_client_ready(Buffer&& first) = 0;
    virtual void on_client_refused(Refusal reason) = 0;
    /// Setup failed. Output queued in the transport, such as the alert of a failed handshake, should reach the client
    /// before the connection closes.
    virtual void on_client_failed(SessionEnd end) = 0;
    /// The transport closed before setup was complete.
    virtual void on_client_closed() = 0;

   protected:
    ~Owner() = default;
  };

  ConnectionSetup(ClientAcceptor& acceptor, Transport& client, Owner& owner);

  void begin();

  /// The client's address: from the PROXY header if it names one, otherwise from the kernel.
  PeerAddress source() const;
  PeerAddress destination() const;
  /// The result of the handshake, or null.
  const Agreement* agreed() const { return agreed_.get(); }
  std::unique_ptr<Agreement> take_agreement() { return std::move(agreed_); }
  SourceLimit::Place take_source_place() { return std::move(place_); }

 private:
  enum class State : uint8_t { kProxyHeader, kHandshake, kDone };

  void on_secured(Transport& client, const Agreement& agreement) override;
  void on_insecure(Transport& client, std::string_view error) override;
  void on_data(Transport& client, Buffer&& data) override;
  void on_end(Transport& client, bool truncated) override;
  void on_sent(Transport&) override {}
  void on_error(Transport& client, int error) override;
  void on_record_error(Transport&, std::string_view) override {}
  void on_closed(Transport& client) override;
  /// Bytes after a PROXY header have nowhere to go yet.
  size_t receive_credit(Transport&) override { return 0; }

  void on_timer();
  void arm_timer(uint64_t due_ms);
  void wait_for_more();
  void read_proxy_header();
  void after_proxy_header();
  void begin_handshake();
  void check_handshake();
  void log_failure(std::string_view error) const;
  void log(std::string_view what) const;
  void respond_to_plain_http();
  void fail(SessionEnd end);
  void refuse(Refusal reason);

  ClientAcceptor& acceptor_;
  Transport& client_;
  Owner& owner_;
  Timer timer_;
  Buffer held_;                             // Received and not yet passed on.
  size_t wanted_ = 0;                       // Parsing is not retried with fewer held bytes than this.
  ChunkPointer<ProxyHeader> proxy_header_;  // Null if there was none.
  std::unique_ptr<Agreement> agreed_;
  SourceLimit::Place place_;
  uint64_t handshake_ms_ = 0;  // When the handshake began.
  State state_ = State::kProxyHeader;
};

}  // namespace sluice
