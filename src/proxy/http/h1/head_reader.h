#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "proxy/http/h1/error.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/h1/websocket.h"
#include "proxy/http/message/head.h"
#include "sluice/chunk_pool.h"

namespace sluice::http1 {

/// How a message is delimited (RFC 9112 section 6.3).
enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilEnd };

/// The kind of a request, as far as it determines the form of its response.
enum class RequestKind : uint8_t { kOther, kHead, kConnect, kWebsocket };
/// The kind of a request with this method that requests no websocket.
RequestKind kind_of(std::string_view method);
constexpr bool asks_for_tunnel(RequestKind kind) {
  return kind == RequestKind::kConnect || kind == RequestKind::kWebsocket;
}

/// Facts about a message and its connection that a head carries but that do not become part of a Head.
struct MessageInfo {
  Framing framing = Framing::kNone;
  uint64_t length = 0;     ///< The length of the body, with kLength.
  bool persistent = true;  ///< The sender keeps the connection open after this message.
  bool version_1_0 = false;
  RequestKind kind = RequestKind::kOther;
  bool expects = false;  ///< The request has Expect: 100-continue.
  bool tunnel = false;   ///< The response accepts the requested tunnel.
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
/// Whether no codec writes or drops the field by itself. `name` is in lower case.
bool is_ordinary(std::string_view name);

}  // namespace sluice::http1
