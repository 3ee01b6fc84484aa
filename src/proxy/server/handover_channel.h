#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "alts_like/secret_bytes.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

/// What two processes of this program say to each other during an upgrade. The old process has started the new one.
enum class HandoverType : uint8_t {
  kSocket = 1,      ///< Old: a listening socket, with its descriptors.
  kPredecessor,     ///< Old: its own connection to the process before it, which still has sessions.
  kTicketKeys,      ///< Old: the random keys of session tickets.
  kSocketsEnd,      ///< Old: that was all that the new process needs to start.
  kStarted,         ///< New: it has left its parent. The content is its process ID.
  kReady,           ///< New: it accepts connections.
  kFailed,          ///< New: it cannot start. The content is the reason.
  kSession,         ///< Old: a session, with its descriptors.
  kSessionTaken,    ///< New: the oldest session without a reply is the new process's.
  kSessionRefused,  ///< New: the oldest session without a reply stays with the old process.
  kLeaving,         ///< New: it shuts down, so the old process must not serve in its place.
};

/// One message.
struct HandoverMessage {
  HandoverType type;
  SecretBytes content;   ///< Wiped, because sessions have keys.
  std::vector<int> fds;  ///< Whoever receives a message owns them.
};

/// One end of the connection between the old and the new process: a Unix stream socket that nobody else has. Each
/// message has a header with a format version, so that builds with another format refuse each other.
class HandoverChannel {
 public:
  /// The environment variable that has the new process's descriptor.
  static constexpr const char* kEnvironment = "SLUICE_UPGRADE_FD";
  static constexpr size_t kMaxContentBytes = size_t{32} << 20;
  static constexpr size_t kMaxFds = kMaxMovingFds;  ///< Linux takes 253 at once (SCM_MAX_FD).

  /// Takes ownership of `fd`.
  explicit HandoverChannel(int fd);
  ~HandoverChannel();
  HandoverChannel(const HandoverChannel&) = delete;
  HandoverChannel& operator=(const HandoverChannel&) = delete;

  int fd() const { return fd_; }
  /// Sends a message; the descriptors stay the caller's. Blocks for at most kTimeoutMs.
  absl::Status send(HandoverType type, std::string_view content = {}, const std::vector<int>& fds = {});
  /// Receives a message. No message: none begins within `timeout_ms`. Once one has begun, blocks for at most
  /// kTimeoutMs. The error is for the user.
  absl::StatusOr<std::optional<HandoverMessage>> receive(int timeout_ms);

 private:
  static constexpr int kTimeoutMs = 5000;

  absl::Status read_all(uint8_t* to, size_t bytes, std::vector<int>* fds);

  const int fd_;
};

}  // namespace sluice
