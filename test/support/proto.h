// Messages of protobuf, put together without the proxy's own writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::test {

inline std::string varint(uint64_t value) {
  std::string text;
  do {
    const auto low = static_cast<unsigned char>(value % 128);
    value /= 128;
    text += static_cast<char>(value > 0 ? low + 128 : low);
  } while (value > 0);
  return text;
}

inline std::string proto_number(uint32_t field, uint64_t value) { return varint(field * 8) + varint(value); }
inline std::string proto_bytes(uint32_t field, std::string_view value) {
  return varint(field * 8 + 2).append(varint(value.size())).append(value);
}

/// An entry of a map of strings, a HeaderValue, and an entry of a descriptor are all alike.
inline std::string proto_pair(uint32_t field, std::string_view key, std::string_view value) {
  return proto_bytes(field, proto_bytes(1, key) + proto_bytes(2, value));
}
/// A HeaderValueOption with more fields.
inline std::string proto_option(uint32_t field, std::string_view name, std::string_view value,
                                std::string_view more = {}) {
  return proto_bytes(field, proto_pair(1, name, value).append(more));
}

/// The body of a call or of a response of gRPC.
inline std::string grpc_framed(std::string_view message) {
  std::string body(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) body.push_back(static_cast<char>(message.size() >> shift));
  return body.append(message);
}

}  // namespace sluice::test
