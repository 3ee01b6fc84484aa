// Raw TLS records, which no library could be made to send.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "alts_like/tls12_keys.h"
#include "alts_like/tls13_keys.h"

namespace sluice::test {

/// The sending side of TLS 1.3, by a peer that has the keys and may seal anything.
class HandmadeRecords {
 public:
  explicit HandmadeRecords(const Tls13Secret& write) : keys_(write) {}

  std::string record(uint8_t type, std::string_view content, size_t padding = 0) {
    std::string inner(content);
    inner.push_back(static_cast<char>(type));
    inner.append(padding, '\0');
    return sealed(std::move(inner));
  }
  /// With any content. The length in the header is at most 65,535.
  std::string sealed(std::string inner) {
    const size_t length = std::min<size_t>(inner.size() + Tls13Keys::kTagBytes, 0xffff);
    std::string record{'\x17', 3, 3, static_cast<char>(length >> 8), static_cast<char>(length)};
    record += inner + std::string(Tls13Keys::kTagBytes, '\0');
    uint8_t* bytes = reinterpret_cast<uint8_t*>(record.data());
    const CRYPTO_IOVEC piece{bytes + 5, bytes + 5, inner.size()};
    keys_.seal({&piece, 1}, {bytes, 5}, bytes + 5 + inner.size());
    return record;
  }
  /// The next keys, without a message.
  void update() { keys_.update(); }

 private:
  Tls13Keys keys_;
};

/// The same in TLS 1.2.
class HandmadeTls12Records {
 public:
  explicit HandmadeTls12Records(const Tls12Secret& write) : keys_(write) {}

  /// The length in the header is at most 65,535.
  std::string record(uint8_t type, std::string_view content) {
    const size_t front = 5 + keys_.explicit_bytes();
    const size_t length = std::min<size_t>(front - 5 + content.size() + Tls12Keys::kTagBytes, 0xffff);
    std::string record{static_cast<char>(type), 3, 3, static_cast<char>(length >> 8), static_cast<char>(length)};
    const auto explicit_nonce = keys_.next_explicit();
    record.append(reinterpret_cast<const char*>(explicit_nonce.data()), keys_.explicit_bytes());
    record += std::string(content) + std::string(Tls12Keys::kTagBytes, '\0');
    uint8_t* const bytes = reinterpret_cast<uint8_t*>(record.data()) + front;
    const CRYPTO_IOVEC piece{bytes, bytes, content.size()};
    keys_.seal({&piece, 1}, type, bytes + content.size());
    return record;
  }

 private:
  Tls12Keys keys_;
};

}  // namespace sluice::test
