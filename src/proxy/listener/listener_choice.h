#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "net/readable_wait.h"
#include "net/timer_wheel.h"
#include "proxy/common/connection_limits.h"
#include "proxy/common/peer_address.h"
#include "proxy/listener/client_acceptor.h"
#include "proxy/listener/session.h"
#include "sluice/buffer.h"

namespace sluice {

class SharedAddress;

/// An accepted connection at addresses that listeners share, until its ClientHello tells which of them it is for. It
/// reads nothing: what the client sends stays in the kernel, and the session of the chosen listener begins with it. So
/// it holds no buffer, and that session is like any other.
///
/// States: reading -> passed on, or -> closing, or -> alert -> closing. It destroys itself.
class ListenerChoice final : public Session, private ReadableWait::Owner {
 public:
  /// `acceptor` accepts for all listeners of the addresses. Takes ownership of the descriptor.
  static void start(ClientAcceptor& acceptor, int fd, int family);

  SessionKind kind() const override { return SessionKind::kTcp; }
  bool shut_down() override;
  StayReason stay_reason() const override;
  ConnectionFacts facts() const override;
  PeerAddress peer() const override;

 private:
  enum class State : uint8_t {
    kReading,
    kAlert,    ///< The client has been sent an alert. What it sends is dropped, so that no reset overtakes the alert.
    kClosing,  ///< The wait is being canceled.
  };

  ListenerChoice(ClientAcceptor& acceptor, int fd, int family);
  ~ListenerChoice();

  void on_readable(bool ended) override;
  void on_timer();
  void begin();
  void begin_hello();
  bool take_source_place(const PeerAddress& source);
  void read(bool ended);
  void inspect(Buffer&& received, bool ended);
  void await(size_t bytes, bool ended);
  void pause();
  void choose(std::string_view name);
  void choose_without_hello();
  void pass_to(ClientAcceptor* to);
  void send_alert(uint8_t description);
  void drop_input();
  void count_end(SessionEnd end);
  void finish(SessionEnd end);
  void refuse(Refusal reason);
  void close(bool cut);
  void arm_timer();
  void log(std::string_view what) const;

  ClientAcceptor& acceptor_;
  ReadableWait wait_;
  Timer timer_;
  SourceLimit::Place source_place_;
  const uint64_t started_ms_;
  uint64_t due_ms_ = 0;
  size_t header_bytes_ = 0;  // Of the PROXY header, once it has come.
  size_t wanted_ = 1;        // Parsing is not retried with fewer bytes than this.
  const int fd_;
  const int family_;
  State state_ = State::kReading;
  bool expects_header_ = false;  // A PROXY header.
  bool admitted_ = false;        // The limit per source has been applied, so the PROXY header has come.
  bool low_water_ = false;       // The descriptor is readable only with several bytes.
  bool passed_on_ = false;
};

}  // namespace sluice
