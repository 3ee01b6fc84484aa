#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/common/counter.h"

namespace sluice {

/// Limits on a peer of one HTTP/2 connection. Exceeding one ends a stream or the connection, is counted
/// (Http2Counters), and is reported by error(). flood_limits.h names the attacks that they counter.
struct Http2Limits {
  // Advertised to the peer in SETTINGS.
  uint32_t streams = 100;
  uint32_t stream_window_bytes = 64 * 1024;
  uint32_t connection_window_bytes = 1024 * 1024;  ///< Precondition: at least 65,535, the initial window.
  /// How much the windows of all streams together may grow beyond stream_window_bytes, where they limit the rate of a
  /// body. The rest of the connection's window stays for the other streams.
  uint32_t window_growth_bytes = 0;
  uint32_t header_list_bytes = 32 * 1024;  ///< Counted as in RFC 9113 section 6.5.2. Twice that ends the connection.

  // Header blocks.
  /// Without pseudo-header fields; each cookie crumb counts as one. More end the stream.
  uint32_t header_fields = 100;
  uint32_t header_fields_hard = 128;  ///< More end the connection.
  uint32_t continuations = 8;         ///< In one block. An empty one ends the connection.
  uint32_t informational_heads = 8;   ///< 1xx heads in one response.

  // Sustained rates. They need Http2Codec::set_now.
  uint32_t pings_burst = 50;
  uint32_t pings_per_10s = 100;
  uint32_t settings_burst = 50;  ///< gRPC peers send one whenever they measure a faster path.
  uint32_t settings_per_10s = 10;
  uint32_t replies_burst = 1000;  ///< Acks and RST_STREAMs that the peer provokes.
  uint32_t replies_per_10s = 1000;
  uint32_t glitches_burst = 100;  ///< Oddities that do not end anything by themselves.
  uint32_t glitches_per_10s = 10;

  // Allowances that a peer earns.
  uint32_t resets = 100;         ///< By the peer, or by us for its errors. Each completed request earns one more.
  uint32_t pings_saved = 1000;   ///< PINGs beyond the rates above. Each DATA frame earns one, up to this many.
  uint32_t resets_saved = 1000;  ///< The most resets that completed requests can accumulate.
  uint32_t frames_unused_per_stream = 100;     ///< PRIORITY, PRIORITY_UPDATE, and unknown types.
  uint32_t frames_on_closed = 1000;            ///< Frames for ended streams, which may stay in flight for a while.
  uint32_t frames_on_closed_per_stream = 100;  ///< Earned by each new stream.
  uint32_t window_updates = 100;               ///< Each new stream earns two more.
  uint32_t window_updates_per_data = 10;       ///< Earned by each DATA frame that we send.
  uint32_t empty_data = 8;                     ///< Consecutive DATA frames without data.
  uint32_t settings_entries = 64;              ///< In one SETTINGS frame.

  // Queued output.
  uint32_t queued_control_frames = 1000;
  uint32_t queued_control_bytes = 1024 * 1024;  ///< Header blocks included.
  /// DATA that one flush() emits. Later frames then follow the priorities at that time.
  uint32_t flush_bytes = 128 * 1024;

  uint32_t requests = 10'000;  ///< Then the connection drains. 0: no limit.
};

/// Counters of all connections of one owner. Plain numbers, for the thread that runs the connections.
struct Http2Counters {
  Counter streams;    ///< Opened by either side.
  Counter completed;  ///< Streams that ended on both sides without a reset.
  Counter resets_received;
  Counter resets_sent;
  Counter refused_streams;   ///< Over Http2Limits::streams.
  Counter malformed;         ///< Messages.
  Counter too_large;         ///< Heads over header_list_bytes or header_fields.
  Counter trailers_dropped;  ///< Trailer sections of responses, over the same limits.
  Counter goaways_received;
  Counter goaways_sent;
  Counter frames_unused;
  Counter frames_on_closed;  ///< Tolerated, because they crossed with a reset.
  Counter glitches;

  // Failed connections, by the limit or rule that they violated.
  Counter over_header_block;  ///< Twice header_list_bytes, or header_fields_hard.
  Counter over_continuations;
  Counter over_pings;
  Counter over_settings;
  Counter over_replies;
  Counter over_glitches;
  Counter over_resets;
  Counter over_frames_unused;
  Counter over_frames_on_closed;
  Counter over_window_updates;
  Counter over_empty_data;
  Counter over_queued_control;
  Counter over_memory;        ///< Requests refused because the connection held more than its share of memory.
  Counter protocol_failures;  ///< Everything else.
};

}  // namespace sluice
