#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

/// Which provided-buffer rings to use (`--rings`).
enum class RingsMode {
  kAuto,         ///< Incremental if the startup probe succeeded, else plain.
  kPlain,        ///< One chunk per receive and no bundles, as on the oldest supported kernel.
  kIncremental,  ///< Refuse to start if incremental rings do not work.
};

/// Features of this kernel's io_uring, found by trying each on a socket pair. The kernel version is a poor guide:
/// distributions backport features, and in some versions a feature misbehaves.
struct Features {
  bool incremental = false;  ///< IOU_PBUF_RING_INC delivers consecutive pieces of one buffer (Linux 6.12), in order.
  bool in_order = false;     ///< Completions arrive in the order in which an incremental buffer was filled, with single
                             ///< receives and multishots mixed. Without this, bytes would reach the wrong connection.
  bool min_left = false;     ///< IOU_PBUF_RING_INC retires a buffer with few bytes left.
  bool keyed_cancel = false;  ///< A waiting multishot is canceled by its user_data (missed on some 6.11).
  bool bundles = false;       ///< A receive fills several buffers in order (6.10, misordered in 6.13.11 to 6.14.8) and
                              ///< honors a bound per completion and in total (6.17).
  bool zero_copy = false;     ///< SENDMSG_ZC (6.1).

  /// One line for the log: "incremental=yes min_left=yes ...".
  std::string to_string() const;
};

/// Tries each feature; takes about a millisecond. An error states what is missing and which setting controls it.
absl::StatusOr<Features> probe_features(RingsMode mode);

}  // namespace sluice
