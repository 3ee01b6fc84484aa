#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// Bounds on what a peer may do on one connection of HTTP/2. What is passed ends a stream or the connection, is counted
/// (Http2Counters), and is told in error(). abuse.h names the attacks that they answer.
struct Http2Limits {
  // Told to the peer in SETTINGS.
  uint32_t streams = 100;
  uint32_t stream_window_bytes = 64 * 1024;
  uint32_t connection_window_bytes = 1024 * 1024;  ///< Precondition: at least 65,535, where every connection begins.
  uint32_t header_list_bytes = 32 * 1024;  ///< As RFC 9113 section 6.5.2 counts; twice that ends the connection.

  // Header blocks.
  uint32_t header_fields =
      100;  ///< Without pseudo-header fields; each crumb of a cookie is one. Beyond, the stream ends,
  uint32_t header_fields_hard = 128;  ///< and beyond this the connection.
  uint32_t continuations = 8;         ///< In one block; an empty one is never taken.
  uint32_t informational_heads = 8;   ///< With a status of 1xx, in one response.

  // Sustained rates, which need Http2Codec::set_now.
  uint32_t pings_burst = 50;
  uint32_t pings_per_10s = 100;
  uint32_t settings_burst = 50;  ///< gRPC's peers send one each time that they find the path to be faster.
  uint32_t settings_per_10s = 10;
  uint32_t replies_burst = 1000;  ///< Acks and RST_STREAMs that the peer makes us send.
  uint32_t replies_per_10s = 1000;
  uint32_t glitches_burst = 100;  ///< Oddities of any kind that end nothing by themselves.
  uint32_t glitches_per_10s = 10;

  // What must be earned.
  uint32_t resets = 100;         ///< By the peer, or by us for its faults; one more for each request that is completed,
  uint32_t pings_saved = 1000;   ///< PINGs beyond those rates: one for each DATA frame, of which no more are kept.
  uint32_t resets_saved = 1000;  ///< of which no more than these are kept.
  uint32_t frames_unused_per_stream = 100;     ///< PRIORITY, PRIORITY_UPDATE, and types that nobody knows.
  uint32_t frames_on_closed = 1000;            ///< For streams that are over: they may be on their way for a while;
  uint32_t frames_on_closed_per_stream = 100;  ///< and per stream that is opened.
  uint32_t window_updates = 100;               ///< And per stream that is opened two, and
  uint32_t window_updates_per_data = 10;       ///< per DATA frame of ours.
  uint32_t empty_data = 8;                     ///< DATA frames without data in a row.
  uint32_t small_data_average_bytes = 64;      ///< Less than that over
  uint32_t small_data_frames = 1000;           ///< so many DATA frames is a glitch.
  uint32_t settings_entries = 64;              ///< In one SETTINGS frame.

  // What waits to be sent.
  uint32_t queued_control_frames = 1000;
  uint32_t queued_control_bytes = 1024 * 1024;  ///< Header blocks included.
  /// DATA that one flush() gives out: later frames can go by the priorities of then.
  uint32_t flush_bytes = 128 * 1024;

  uint32_t requests = 10'000;  ///< Then the connection drains. 0: any number.
};

/// What happened on the connections of one owner. Plain numbers, for the thread that runs them.
struct Http2Counters {
  uint64_t streams = 0;    ///< Opened by either side.
  uint64_t completed = 0;  ///< Of these, ended on both sides without a reset.
  uint64_t resets_received = 0;
  uint64_t resets_sent = 0;
  uint64_t refused_streams = 0;   ///< Over Http2Limits::streams.
  uint64_t malformed = 0;         ///< Messages.
  uint64_t too_large = 0;         ///< Heads over header_list_bytes or header_fields.
  uint64_t trailers_dropped = 0;  ///< Trailer sections of responses, over the same limits.
  uint64_t goaways_received = 0;
  uint64_t goaways_sent = 0;
  uint64_t frames_unused = 0;
  uint64_t frames_on_closed = 0;  ///< Let pass: they crossed with a reset.
  uint64_t glitches = 0;

  // Connections that failed, by what they passed or broke.
  uint64_t over_header_block = 0;  ///< header_list_bytes twice, header_fields_hard.
  uint64_t over_continuations = 0;
  uint64_t over_pings = 0;
  uint64_t over_settings = 0;
  uint64_t over_replies = 0;
  uint64_t over_glitches = 0;
  uint64_t over_resets = 0;
  uint64_t over_frames_unused = 0;
  uint64_t over_frames_on_closed = 0;
  uint64_t over_window_updates = 0;
  uint64_t over_empty_data = 0;
  uint64_t over_queued_control = 0;
  uint64_t over_memory = 0;        ///< Requests refused, since the connection held more than its share of memory.
  uint64_t protocol_failures = 0;  ///< Everything else.
};

}  // namespace sluice
