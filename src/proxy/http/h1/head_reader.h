#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pool/chunk_pool.h"
#include "proxy/http/h1/error.h"
#include "proxy/http/h1/limits.h"
#include "proxy/http/message/head.h"

namespace sluice::http1 {

/// How a message is delimited (RFC 9112 section 6.3).
enum class Framing : uint8_t { kNone, kLength, kChunked, kUntilEnd };

using WebsocketAccept = std::array<char, 28>;

/// What a head says about its message and the connection, beside what becomes a Head.
struct MessageInfo {
  Framing framing = Framing::kNone;
  uint64_t length = 0;     ///< With kLength.
  bool persistent = true;  ///< The connection goes on behind it, for all that the sender knows.
  bool version_1_0 = false;
  bool head_method = false;  ///< A request with the method HEAD,
  bool connect = false;      ///< or CONNECT,
  bool websocket = false;    ///< or an upgrade; or a response that agrees to one, with 101.
  bool expects = false;      ///< 100-continue.
  WebsocketAccept accept{};  ///< What belongs to a request's key; or what a response has.
};

/// Read `bytes`, which are a whole head with its empty line, or a trailer section. Strict: what two readers could take
/// for different messages is refused. What was read before an error is of no use. `fields` is how many lines of them
/// there are, or about that.
Error read_request(std::string_view bytes, size_t fields, const Http1Options& options, Http1Counters& counters,
                   ChunkPool& pool, Head& head, MessageInfo& info);
/// `request` is what the response answers.
Error read_response(std::string_view bytes, size_t fields, const Http1Options& options, Http1Counters& counters,
                    ChunkPool& pool, const MessageInfo& request, Head& head, MessageInfo& info);
Error read_trailers(std::string_view bytes, bool of_request, const Http1Options& options, Http1Counters& counters,
                    ChunkPool& pool, Fields& trailers);

/// Whether a field concerns one connection only: never written but by the codec itself.
bool is_hop_by_hop(std::string_view name);

}  // namespace sluice::http1
