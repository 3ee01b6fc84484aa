#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "alts_like/client_hello.h"
#include "alts_like/handshake.h"
#include "alts_like/record_state.h"
#include "proxy/access_log/listener_log.h"
#include "proxy/common/peer_address.h"
#include "proxy/http/message/client_ip.h"

namespace sluice {

/// What the access log will say about one connection of a `tcp` listener, gathered while the connection lasts. It has
/// no memory of its own, and goes with a connection that moves to another process.
class ConnectionLog {
 public:
  static constexpr uint32_t kNoRoute = UINT32_MAX;

  /// The connection begins now. `log` outlives it.
  explicit ConnectionLog(ListenerLog& log);

  void note_client(const PeerAddress& address);
  /// The result of the client's handshake.
  void note_agreement(const Agreement& agreed);
  /// The name in a ClientHello that is passed through.
  void note_server_name(std::string_view name) { server_name_.set(name); }
  void note_route(uint32_t index) { route_ = index; }
  /// An attempt on an endpoint begins.
  void note_attempt();
  /// The last attempt has succeeded.
  void note_connected();
  void count_in(size_t bytes) { bytes_in_ += bytes; }
  void count_out(size_t bytes) { bytes_out_ += bytes; }
  /// So many bytes wait in the proxy now.
  void note_pinned(size_t bytes) { pinned_bytes_ = std::max<uint64_t>(pinned_bytes_, bytes); }

  PeerAddress client() const { return client_.address(client_port_); }
  bool has_route() const { return route_ != kNoRoute; }
  uint32_t attempts() const { return attempts_; }

  /// Writes the line: the connection ends now. `reason` has a static name; without an upstream or an endpoint their
  /// names are empty.
  void write(std::string_view listener, std::string_view upstream, std::string_view endpoint,
             std::string_view reason) const;

  /// For a connection that moves to another process: appends what is known of it, and takes it over there. False if
  /// that is malformed.
  void write_state(StateWriter& out) const;
  [[nodiscard]] bool read_state(StateReader& in);

 private:
  // A text that is cut to its room.
  template <size_t kMost>
  struct ShortText {
    static_assert(kMost <= UINT8_MAX);
    void set(std::string_view text) { size = static_cast<uint8_t>(text.copy(bytes.data(), kMost)); }
    std::string_view view() const { return {bytes.data(), size}; }

    uint8_t size = 0;
    std::array<char, kMost> bytes;
  };

  ListenerLog& log_;
  uint64_t started_us_;        // On the monotonic clock.
  uint64_t attempted_us_ = 0;  // When the first attempt on an endpoint began; 0: there was none.
  uint64_t connect_us_ = 0;    // From then until one had succeeded; 0: none has.
  uint64_t bytes_in_ = 0, bytes_out_ = 0;
  uint64_t pinned_bytes_ = 0;  // The most that waited at once. Not part of the state that moves.
  uint32_t attempts_ = 0;
  uint32_t route_ = kNoRoute;
  uint16_t client_port_ = 0;
  ClientIp client_;
  ShortText<8> tls_;
  ShortText<48> cipher_;
  ShortText<kMaxServerNameBytes> server_name_;
};

}  // namespace sluice
