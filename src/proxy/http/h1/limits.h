#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

/// What one connection may ask of us. A head of more than 64 KiB is never read.
struct Http1Limits {
  size_t start_line_bytes = size_t{8} * 1024;  ///< Else 414.
  size_t head_bytes = size_t{32} * 1024;       ///< Else 431, as are the fields. Trailers have the same two limits.
  size_t fields = 100;
  size_t connection_options = 16;  ///< Fields that Connection names in one message; no more than 16.
  size_t chunk_extension_bytes = 256;
  /// Of requests that wait for the response to an earlier one. They are looked at one by one, so that however many
  /// there are, only bytes wait.
  size_t pipelined_bytes = size_t{16} * 1024;
  /// Of responses that wait for a peer that pipelines: from there on no further request is read.
  size_t pipelined_output_bytes = size_t{64} * 1024;
  uint32_t requests = 1000;    ///< On a connection; the last one's response ends it.
  uint8_t informational = 16;  ///< Responses with a status of 1xx before the final one.

  /// What a client bears.
  static constexpr Http1Limits of_responses() {
    Http1Limits limits;
    limits.head_bytes = size_t{64} * 1024;
    limits.fields = 200;
    return limits;
  }
};

/// How a connection behaves. The bools that begin with `allow` are off where a rule that keeps requests apart
/// (smuggling) would be relaxed.
struct Http1Options {
  Http1Limits limits;
  bool secure = false;  ///< Requests came through TLS: the scheme is https, whatever they say.
  /// Takes CONNECT for a method; else 501.
  bool allow_connect = false;
  /// Takes requests' field names with an underscore, which some take for a hyphen; else 400. Responses may have them.
  bool allow_underscores = false;
  /// Skips one empty line before a request (RFC 9112 section 2.2), as it stands behind the body of old clients.
  bool allow_empty_line = true;
};

/// Counts, of all connections that share it. One thread writes.
struct Http1Counters {
  uint64_t messages = 0;       ///< Heads that were read, 1xx apart.
  uint64_t informational = 0;  ///< ... and those.
  uint64_t malformed = 0;      ///< Messages that broke a rule,
  uint64_t too_large = 0;      ///< or a limit,
  uint64_t unsupported = 0;    ///< or asked for what there is not: 417, 501, 505.
  uint64_t lost = 0;           ///< Connections that ended within a message.
  uint64_t over_memory = 0;    ///< Requests refused, since the connection held more than its share of memory.
  // What options allowed.
  uint64_t connects = 0;
  uint64_t underscores = 0;
  uint64_t empty_lines = 0;
  // Limits that are no errors.
  uint64_t requests_met = 0;            ///< Connections that reached their last request.
  uint64_t pipelines_full = 0;          ///< Times that reading paused because of requests that wait.
  uint64_t trailer_fields_dropped = 0;  ///< Such as no trailer may have (RFC 9110 section 6.5.1).
  uint64_t trailers_dropped = 0;        ///< Trailer sections of responses, over a limit.
  uint64_t bodies_dropped = 0;          ///< Sent to us where none may be: for HEAD, 204, 304.
};

}  // namespace sluice
