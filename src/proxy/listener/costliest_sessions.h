#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proxy/listener/session.h"

namespace sluice {

/// Of the sessions that are considered, those whose end frees most memory for the least that they were used for.
///
/// The cost of a session is the memory that it holds, times its age, for each byte that its client has transferred so
/// far. So one whose client takes its response as fast as it can costs little, however much it holds, and one whose
/// client hardly reads costs more the longer it does.
class CostliestSessions {
 public:
  static constexpr size_t kMost = 16;
  /// A session that holds less is not closed: too little would be gained.
  static constexpr size_t kLeastBytes = size_t{64} << 10;

  /// Sessions must stay valid until close().
  void consider(Session& session, uint64_t now_ms);
  /// Closes them, the costliest first, until that has freed `wanted_bytes`. Calls `closed(bytes)` for each.
  template <class Closed>
  void close(uint64_t wanted_bytes, const Closed& closed) {
    for (size_t i = 0; i < count_ && wanted_bytes > 0; ++i) {
      if (!found_[i].session->close_for_memory()) continue;
      wanted_bytes -= wanted_bytes < found_[i].bytes ? wanted_bytes : found_[i].bytes;
      closed(found_[i].bytes);
    }
  }

 private:
  struct Found {
    Session* session;
    size_t bytes;
    double cost;
  };
  std::array<Found, kMost> found_{};  // The costliest first.
  size_t count_ = 0;
};

}  // namespace sluice
