#include "proxy/http/h1/websocket.h"

#include <openssl/base64.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cstdint>

#include "proxy/common/token.h"
#include "sluice/internal/check.h"

namespace sluice::http1 {

namespace {

constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

// Encodes base64 without the NUL that BoringSSL appends.
template <size_t kFrom, size_t kTo>
std::array<char, kTo> base64(const std::array<uint8_t, kFrom>& bytes) {
  static_assert(kTo == (kFrom + 2) / 3 * 4);
  std::array<uint8_t, kTo + 1> encoded;
  SLUICE_CHECK(EVP_EncodeBlock(encoded.data(), bytes.data(), kFrom) == kTo);
  std::array<char, kTo> text;
  std::copy_n(encoded.begin(), kTo, text.begin());
  return text;
}

}  // namespace

WebsocketKey new_websocket_key() {
  std::array<uint8_t, 16> bytes;
  RAND_bytes(bytes.data(), bytes.size());
  return base64<16, 24>(bytes);
}

bool is_websocket_key(std::string_view text) {
  // 16 bytes encode to 22 characters and two of padding. The last of the 22 holds two bits, so it has four possible
  // values.
  return text.size() == 24 && text.ends_with("==") &&
         std::string_view("AQgw").find(text[21]) != std::string_view::npos &&
         std::all_of(text.begin(), text.end() - 2,
                     [](char c) { return is_alpha(c) || is_digit(c) || c == '+' || c == '/'; });
}

WebsocketAccept websocket_accept(std::string_view key) {
  SLUICE_CHECK(key.size() == 24);
  std::array<uint8_t, 24 + kGuid.size()> text;
  std::copy(kGuid.begin(), kGuid.end(), std::copy(key.begin(), key.end(), text.begin()));
  std::array<uint8_t, SHA_DIGEST_LENGTH> digest;
  SHA1(text.data(), text.size(), digest.data());
  return base64<SHA_DIGEST_LENGTH, 28>(digest);
}

}  // namespace sluice::http1
