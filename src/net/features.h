#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

/// Which provided-buffer rings to use (`--rings`).
enum class RingsMode {
  kAuto,         ///< Incremental where the start-up probe saw it work, else plain.
  kPlain,        ///< One chunk per receive and no bundles: what the oldest supported kernel does.
  kIncremental,  ///< Refuse to start where incremental rings do not work.
};

/// What this kernel's io_uring does, found by trying each on a socket pair: distributions backport, and some versions
/// have a feature that misbehaves, so the version says little.
struct Features {
  bool incremental = false;  ///< IOU_PBUF_RING_INC delivers consecutive pieces of one buffer (Linux 6.12), in order.
  bool in_order = false;     ///< Completions come in the order in which an incremental buffer was filled, also those of
                             ///< single receives and multishots mixed. Without it bytes would change connections.
  bool min_left = false;     ///< ... and retires a buffer with few bytes left.
  bool bundles = false;      ///< A receive fills several buffers in order (6.10, misordered in 6.13.11 to 6.14.8) and
                             ///< keeps to a bound per completion and in all (6.17).
  bool zero_copy = false;    ///< SENDMSG_ZC (6.1).

  /// One line for the log: "incremental=yes min_left=yes ...".
  std::string to_string() const;
};

/// Tries each feature; takes about a millisecond. An error says what is missing and where the switch is.
absl::StatusOr<Features> probe_features(RingsMode mode);

}  // namespace sluice
