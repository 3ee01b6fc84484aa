#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "alts_like/handshake.h"
#include "buffer/buffer.h"
#include "net/timer_wheel.h"
#include "pool/chunk_pointer.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/peer_address.h"
#include "proxy/metrics/l4_counters.h"
#include "proxy/transport/proxy_protocol.h"
#include "proxy/transport/transport.h"

namespace sluice {

class ClientAcceptor;

/// The beginning of an accepted connection, before anything in it is for its session: the PROXY header, the limit per
/// source (which applies to the address that the header names), the handshake. It owns the transport while that lasts.
///
/// Exactly one of its owner's calls comes, perhaps out of begin(), and never two. The owner may destroy it then.
class ConnectionSetup final : private Transport::Owner {
 public:
  class Owner {
   public:
    /// `first`: what has come and is not encrypted. Behind a handshake there may be more: Transport::release_arrived().
    virtual void on_client_ready(Buffer&& first) = 0;
    virtual void on_client_refused(Refusal reason) = 0;
    /// What is queued is to be told to the client before its end: why its handshake failed.
    virtual void on_client_failed(SessionEnd end) = 0;
    /// The transport has closed in the meantime.
    virtual void on_client_closed() = 0;

   protected:
    ~Owner() = default;
  };

  ConnectionSetup(ClientAcceptor& acceptor, Transport& client, Owner& owner);

  void begin();

  /// Whose connection it is: as the PROXY header said, else as the kernel does.
  PeerAddress source() const;
  PeerAddress destination() const;
  /// What the handshake agreed on, or null.
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
  /// What comes behind a PROXY header has nowhere to go yet.
  size_t receive_credit(Transport&) override { return 0; }

  void on_timer();
  void arm_timer(uint64_t due_ms);
  void wait_for_more();
  void read_proxy_header();
  void after_proxy_header();
  void begin_handshake();
  void look_after_handshake();
  void log_failure(std::string_view error) const;
  void log(std::string_view what) const;
  void answer_plain_http();
  void fail(SessionEnd end);
  void refuse(Refusal reason);

  ClientAcceptor& acceptor_;
  Transport& client_;
  Owner& owner_;
  Timer timer_;
  Buffer held_;                             // Received, not yet passed on.
  size_t wanted_ = 0;                       // Parsing again is pointless before so many bytes are held.
  ChunkPointer<ProxyHeader> proxy_header_;  // Null where there was none.
  std::unique_ptr<Agreement> agreed_;
  SourceLimit::Place place_;
  uint64_t handshake_ms_ = 0;  // When it began.
  State state_ = State::kProxyHeader;
};

}  // namespace sluice
