#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "alts_like/record_state.h"
#include "proxy/http/message/stream.h"
#include "proxy/http/proxy/http_session.h"
#include "proxy/http/proxy/upstream_connection.h"
#include "proxy/listener/moving_session.h"

namespace sluice {

class ClientAcceptor;
class HttpUpstream;
class StreamPair;
class StreamTunnel;
struct HttpListener;

/// A stream of a connection to an endpoint: the connection's place in the group, and the stream's in its codec.
struct StreamPlace {
  uint16_t connection = 0;
  uint16_t stream = 0;

  void write(StateWriter& out) const;
  static StreamPlace read(StateReader& in);
};

struct StreamPlaces {
  absl::flat_hash_map<const MovableStream*, StreamPlace> places;

  const StreamPlace& at(const MovableStream& stream) const { return places.at(&stream); }
};

/// Sessions that move to another process together, because their streams share connections to endpoints: one session
/// that shares none, or all the sessions and connections that reach each other through streams. None of them may
/// continue there without the others. It destroys itself when they have left, or stay.
///
/// The state: the number of connections to endpoints; each of them (UpstreamConnection::write_state); each session
/// (HttpSession::write_state). The descriptors and the endpoints' names are in the order of their connections.
class MovingGroup {
 public:
  /// Begins to move `first` and what it shares connections with. False: some part cannot move now.
  [[nodiscard]] static bool begin(HttpSession& first);
  /// Begins to detach a tunnel that continues within this process: see HttpSession::settle().
  static void begin_settling(HttpSession& tunnel);
  MovingGroup(const MovingGroup&) = delete;
  MovingGroup& operator=(const MovingGroup&) = delete;

  // Called by its members.
  /// A connection is detached.
  void continue_moving();
  /// All of them continue here.
  void stay();

  /// The listener of a name and its acceptor on this worker; null if there is none for HTTP.
  using FindListener = absl::FunctionRef<std::pair<ClientAcceptor*, HttpListener*>(std::string_view name)>;
  /// Continues the group that has written `moving`. Takes ownership of the descriptors. False if `moving` has not what
  /// it needs; if its state is malformed, the sessions end by themselves. `stays`: they do not move out again.
  static bool resume(MovingSession& moving, FindListener find, bool stays);

 private:
  MovingGroup() = default;

  bool add(HttpSession& session);
  bool add(UpstreamConnection& connection);
  bool collect(HttpSession& first);
  void wait_for_requests();
  bool detached();
  bool pass_all_on();
  void depart();
  void settle();
  bool write_state(MovingSession& moving);
  void abandon();
  void finish();

  std::vector<HttpSession*> sessions_;
  std::vector<UpstreamConnection*> connections_;
  absl::flat_hash_set<const void*> known_;
  size_t fds_ = 0;  // Descriptors that move.
  // The members before these were detached at the last look.
  size_t detached_connections_ = 0;
  size_t detached_sessions_ = 0;
  bool done_ = false;
  bool settles_ = false;  // It continues in this process.
};

/// What MovingGroup::resume() has read so far.
struct ResumingGroup {
  struct Session {
    HttpSession* session = nullptr;
    CodecPointer codec;
    Buffer late;
  };
  struct Connection {
    UpstreamConnection* connection = nullptr;
    CodecPointer codec;
    Buffer late;
    std::vector<HttpStream*> streams;  ///< Null where taken.

    HttpStream* take_stream(StreamPlace place) {
      return place.stream < streams.size() ? std::exchange(streams[place.stream], nullptr) : nullptr;
    }
  };

  explicit ResumingGroup(MovingSession& from) : moving(from), in(from.state) {}
  /// The next descriptor, which the caller owns; -1: none is left.
  int take_fd() { return next_fd < moving.fds.size() ? std::exchange(moving.fds[next_fd++], -1) : -1; }
  /// Null: none is left.
  const MovingSession::Endpoint* take_endpoint() {
    return next_endpoint < moving.endpoints.size() ? &moving.endpoints[next_endpoint++] : nullptr;
  }
  Connection* connection(StreamPlace place) {
    return place.connection < connections.size() ? &connections[place.connection] : nullptr;
  }

  MovingSession& moving;
  StateReader in;
  size_t next_fd = 0;
  size_t next_endpoint = 0;
  std::vector<Connection> connections;
  std::vector<Session> sessions;
  std::vector<StreamTunnel*> tunnels;
  std::vector<StreamPair*> pairs;
};

}  // namespace sluice
