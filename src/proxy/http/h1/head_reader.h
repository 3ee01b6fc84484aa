#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/h1/error.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice::http1 {

/// How a message is delimited (RFC 9112 section 6.3).
enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilEnd };

using WebsocketAccept = std::array<char, 28>;

/// Facts about a message and its connection that a head carries but that do not become part of a Head.
struct MessageInfo {
  Framing framing = Framing::kNone;
  uint64_t length = 0;     ///< The length of the body, with kLength.
  bool persistent = true;  ///< The sender keeps the connection open after this message.
  bool version_1_0 = false;
  bool head_method = false;  ///< The request's method is HEAD.
  bool connect = false;      ///< The request's method is CONNECT.
  bool websocket = false;    ///< A request for a websocket upgrade, or a 101 response that accepts one.
  bool expects = false;      ///< The request has Expect: 100-continue.
  /// Of a request: the Sec-WebSocket-Accept that its key calls for. Of a response: the received value.
  WebsocketAccept accept{};
};

/// These functions parse `bytes`, which must hold a complete head with its empty line, or a complete trailer section.
/// They are strict: they refuse a message that two parsers could read differently. After an error the outputs are
/// unusable. `fields` is the approximate number of field lines.
Error read_request(std::string_view bytes, size_t fields, const Http1Options& options, Http1Counters& counters,
                   ChunkPool& pool, Head& head, MessageInfo& info);
/// `request` describes the request that this response belongs to.
Error read_response(std::string_view bytes, size_t fields, const Http1Options& options, Http1Counters& counters,
                    ChunkPool& pool, const MessageInfo& request, Head& head, MessageInfo& info);
Error read_trailers(std::string_view bytes, bool of_request, const Http1Options& options, Http1Counters& counters,
                    ChunkPool& pool, Fields& trailers);

/// Whether a field applies to one connection only, so that only the codec itself may write it.
bool is_hop_by_hop(std::string_view name);

}  // namespace sluice::http1
