// The opening handshake of RFC 6455 section 4: the client's key, and the accept value that proves the server understood
// it.
#pragma once

#include <array>
#include <string_view>

namespace sluice::http1 {

/// 16 random bytes in base64.
using WebsocketKey = std::array<char, 24>;
/// A SHA-1 hash in base64.
using WebsocketAccept = std::array<char, 28>;

WebsocketKey new_websocket_key();
bool is_websocket_key(std::string_view text);
/// The Sec-WebSocket-Accept value for a key. Precondition: is_websocket_key(key).
WebsocketAccept websocket_accept(std::string_view key);

}  // namespace sluice::http1
