#pragma once

#include <cstddef>
#include <cstdint>

#include "proxy/common/counter.h"

namespace sluice {

/// Limits on what a peer may use of one connection. A head of more than 64 KiB is never read.
struct Http1Limits {
  size_t start_line_bytes = size_t{8} * 1024;  ///< A longer one gets a 414.
  /// A larger head gets a 431, as do too many fields. Both limits also apply to trailers.
  size_t head_bytes = size_t{32} * 1024;
  size_t fields = 100;
  size_t connection_options = 16;  ///< Fields that Connection names in one message; at most 16.
  size_t chunk_extension_bytes = 256;
  /// Bytes of pipelined requests that wait for an earlier response. They are parsed one request at a time, so however
  /// many requests wait, only bytes are kept.
  size_t pipelined_bytes = size_t{16} * 1024;
  /// Bytes of responses that wait for a pipelining peer. Above this no further request is read.
  size_t pipelined_output_bytes = size_t{64} * 1024;
  uint32_t requests = 1000;    ///< Requests on one connection; the response to the last one ends it.
  uint8_t informational = 16;  ///< 1xx responses before the final one.

  /// The limits that a client applies to responses.
  static constexpr Http1Limits of_responses() {
    Http1Limits limits;
    limits.head_bytes = size_t{64} * 1024;
    limits.fields = 200;
    return limits;
  }
};

/// The behavior of a connection. The options that begin with `allow` are off by default if they relax a rule that
/// prevents request smuggling.
struct Http1Options {
  Http1Limits limits;
  bool secure = false;  ///< Requests arrive over TLS: the scheme is https, whatever the request target contains.
  /// Accepts the method CONNECT; otherwise it gets a 501.
  bool allow_connect = false;
  /// Accepts request field names with an underscore, which some software treats as a hyphen; otherwise they get a 400.
  /// Response field names may always have them.
  bool allow_underscores = false;
  /// Skips one empty line before a request (RFC 9112 section 2.2): some old clients send one after a body.
  bool allow_empty_line = true;
};

/// Counters of all connections that share this object. One thread writes them.
struct Http1Counters {
  Counter messages;       ///< Heads read, without 1xx.
  Counter informational;  ///< Heads of 1xx responses read.
  Counter malformed;      ///< Messages that broke a rule.
  Counter too_large;      ///< Messages over a limit.
  Counter unsupported;    ///< Messages that need an unsupported feature: 417, 501, 505.
  Counter lost;           ///< Connections that ended within a message.
  Counter over_memory;    ///< Requests refused because the connection held more than its share of memory.
  // Messages that an option permitted.
  Counter connects;
  Counter underscores;
  Counter empty_lines;
  // Limits that cause no error.
  Counter requests_met;            ///< Connections that reached their last request.
  Counter pipelines_full;          ///< Times that reading paused because of pipelined requests.
  Counter trailer_fields_dropped;  ///< Fields that may not be in trailers (RFC 9110 section 6.5.1).
  Counter trailers_dropped;        ///< Trailer sections of responses over a limit.
  Counter bodies_dropped;          ///< Bodies dropped where a response may have none: HEAD, 204, 304.
};

}  // namespace sluice
